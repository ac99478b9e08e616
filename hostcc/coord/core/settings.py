"""Every setting of the gossip core: meaning, unit, trade-off, and source of its default.

Times are experienced seconds (clock.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Defaults suit a data centre, where round trips are far below a round.

    n is the number of members. Bytes, messages and seconds are of one member.
    """

    round_s: float = 0.2
    """Longest time between two rounds while there is something to do (memberlist's LAN preset).

    News takes about log(n) / log(1 + fanout) rounds to reach everybody.  Shorter: news is faster,
    processor time grows in proportion."""
    rest_s: float = 1.0
    """Longest time between two rounds while there is nothing to do.

    Longer: fewer wake-ups at rest, but answers that are not sent at once wait up to this long.
    """
    fanout: int = 3
    """Members that receive fresh records in a round (memberlist's LAN preset).

    More: fewer rounds, but more copies of the same news.
    """
    sample_size: int = 24
    """Members from which the `fanout` ones are chosen.

    Fewer than the connections that a host keeps (transport_settings.py), so that a round opens
    none. More: news mixes faster, but more connections stay open.
    """
    sample_change_s: float = 5.0
    """Time after which one member of the sample is replaced.

    Shorter: a sample cut off from the rest heals sooner; each change costs a handshake of 2 ms.
    """
    eager: int = 5
    """Members that are sent a fresh record as it is: e^-eager of all (0.7 %) have it from nobody...

    More: as many more copies of whole records."""
    announced: float = 3.0
    """...and hear of it by announcements of 24 bytes, announced * ln(n + 1) from each member.

    What is missing is asked for.  A member hears of none with a probability of about n^-announced,
    and then waits for a comparison of stores (`sync_s`)."""
    join_s: float = 1.0
    """How long a member that has just started listens before it speaks, at most.

    Longer: fewer answers to what it would have learned anyway; it is known later."""
    sync_s: float = 2.0
    """How often one random member's whole store is compared, by its hash.

    A record that news missed is repaired after a few of these.  Shorter: sooner, for a hash each
    time."""
    probe_s: float = 1.0
    """How often one member is probed, each in its turn (SWIM, section 4.3).

    A dead member is first suspected by somebody after about probe_s * e / (e - 1), whatever n is;
    each member sends one probe in this time."""
    ack_s: float = 0.4
    """How long to wait for an answer before helpers are asked to probe.

    Above the longest round trip and pause of a healthy member; `probe_s` leaves room for both.
    """
    helpers: int = 3
    """Number of members asked to probe in this member's place (SWIM, k).

    With a loss rate p, a probe accuses a healthy member with a probability of (1 - (1 - p)^2) * (1
    - (1 - p)^4)^helpers; each helper costs four messages where it matters.
    """
    suspect_s: float = 4.0
    """Time from suspicion to death when enough others agree: suspect_s * max(1, log10(n)).

    Lifeguard's alpha, four probe periods.  Longer: fewer false deaths, and plans count on the dead
    for longer."""
    suspect_factor: float = 6.0
    """The same with one accuser only, as a multiple (Lifeguard's beta)."""
    confirmations: int = 3
    """Accusers beside the first that shorten the wait all the way (Lifeguard's K).

    More: a member that is itself cut off kills fewer others."""
    forget_s: float = 3600.0
    """How long a dead member's records are kept, so that it can be found again.

    Longer: memory for the dead, and for what was dropped (`dropped_s`)."""
    tombstone_s: float = 600.0
    """How long a withdrawn record is passed on.

    Whoever is cut off for longer may bring it back once; its writer withdraws it again."""
    rejoin_s: float = 10.0
    """How often a dead member or a configured contact is tried, plus or minus half.

    After a cut the two sides find each other within about this time."""
    bytes_per_s: float = 100_000.0
    """News that is sent on average; more waits.

    0.8 Mbit/s: nothing beside training traffic.  1,000 records of 1 kB to 5 members take 50 s."""
    burst_bytes: float = 2_000_000.0
    """News that may be sent at once: the bucket that `bytes_per_s` fills."""
    answer_bytes_per_s: float = 100_000.0
    """The same for records that others request; one peer gets at most a quarter of it."""
    answer_burst_bytes: float = 4_000_000.0
    """Answers that may be sent at once, as when a member joins."""
    writer_per_s: float = 4.0
    """Records accepted from one writer on average; more are ignored, and repaired later.

    Bounds what one member can make all others check and relay.
    """
    writer_burst: int = 600
    """Records accepted from one writer at once; above `writer_records`, because a start is one
    burst."""
    writer_records: int = 256
    """Records held of one writer: jobs, flows and paths of one host.

    n * writer_records is the largest store.
    """
    writer_bytes: int = 512 * 1024
    """Total bytes of the records held of one writer."""
    members: int = 20_000
    """Members that are kept; more are ignored."""
    strikes: int = 3
    """Invalid messages within `quarantine_s` after which a peer is ignored for this long.

    More: a defective member, or a hostile one, is listened to for longer.
    """
    quarantine_s: float = 60.0
    """How long a peer with too many strikes is ignored. It is logged once in this time."""
    neighbours: int = 256
    """Most members that a host waits for before it activates a plan.

    More: hosts switch to a plan more nearly together, but one slow member delays more of them.
    """
    agree_s: float = 5.0
    """How long a host waits for them. Plans are performance hints: going on beats waiting."""
    view_s: float = 1.0
    """Least time between builds of the view, when something has changed.

    Shorter: plans follow news sooner; each view costs a plan, which takes up to a second.
    """

    @property
    def dropped_s(self) -> float:
        """Seconds for which a record dropped for its age is refused. A member that was cut off from
        the writer for longer has forgotten the record as well."""
        return 1.5 * self.forget_s + 2 * self.tombstone_s

    def suspicion(self, members: int) -> tuple[float, float]:
        """Return the (shortest, longest) seconds from the first accusation to death."""
        least = self.suspect_s * max(1.0, math.log10(max(members, 1)))
        return least, least * self.suspect_factor

    def announcements(self, members: int) -> int:
        """Return the number of members that a fresh record is announced to."""
        return math.ceil(self.announced * math.log(members + 1))
