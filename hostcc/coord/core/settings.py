"""Every knob of the gossip core, with its unit and where its default comes from.

Times are on the member's own clock of experience (clock.py): a pause or a clock step counts
for no more than the longest rest that was granted since the last round, and a round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Defaults are for a data centre: round trips far below a round."""

    round_s: float = 0.2
    """How often tick is called (memberlist's LAN preset: 200 ms)..."""
    rest_s: float = 1.0
    """...while there is something to do, and at most this much later while there is not."""
    fanout: int = 3
    """Members that fresh records go to in a round (memberlist's LAN preset)."""
    circle: int = 24
    """Members that these are chosen from: fewer than connections (transport_settings.py)."""
    circle_s: float = 5.0
    """How often another member takes the place of one of them."""
    eager: int = 5
    """Members that are sent a fresh record as it is: e^-5 of all are left over..."""
    announced: float = 3.0
    """...and are reached by announcements of 24 bytes, of which each member makes this many
    times ln(members): what is missing is asked for."""
    join_s: float = 1.0
    """How long a member that has just started listens before it speaks, at most."""
    sync_s: float = 2.0
    """How often one random member's whole store is compared, by its hash."""
    probe_s: float = 1.0
    """How often one member is probed, each in its turn (SWIM, section 4.3)."""
    ack_s: float = 0.4
    """How long to wait for an answer before others are asked to probe."""
    helpers: int = 3
    """How many others (SWIM, k)."""
    suspect_s: float = 4.0
    """How long a member stays suspect when enough others accuse it too, times
    log10(members); Lifeguard's alpha = 4 probe periods."""
    suspect_factor: float = 6.0
    """The same with one accuser only, as a multiple (Lifeguard's beta)."""
    confirmations: int = 3
    """Accusers beside the first that shorten the wait all the way (Lifeguard's K)."""
    forget_s: float = 3600.0
    """How long a dead member's records are kept, so that it can be found again."""
    tombstone_s: float = 600.0
    """How long a withdrawn record is passed on."""
    rejoin_s: float = 10.0
    """How often a dead member or a configured contact is tried, plus or minus half."""
    bytes_per_s: float = 100_000.0
    """News that is sent on average; more waits."""
    burst_bytes: float = 2_000_000.0
    """News that may be sent at once."""
    answer_bytes_per_s: float = 100_000.0
    """The same for records that others ask for; one of them gets a quarter of it."""
    answer_burst_bytes: float = 4_000_000.0
    """At once, as when a member joins."""
    writer_per_s: float = 4.0
    """Records taken from one writer on average; more are passed over, and repaired later."""
    writer_burst: int = 600
    writer_records: int = 256
    """Records that one writer may have."""
    writer_bytes: int = 512 * 1024
    members: int = 20_000
    """Members that are kept; more are passed over."""
    strikes: int = 3
    """Bad messages within a quarantine's length after which a peer is not heard..."""
    quarantine_s: float = 60.0
    """...for this long.  It is logged once in this time."""
    neighbours: int = 256
    """Members that a host waits for before it activates a plan, at most."""
    agree_s: float = 5.0
    """How long it waits for them."""
    view_s: float = 1.0
    """How often the view is made anew, when something has changed."""

    @property
    def note_s(self) -> float:
        """How long a record that was dropped for its age is not taken back: a member that was
        cut off from the writer for longer has forgotten it."""
        return 1.5 * self.forget_s + 2 * self.tombstone_s

    def suspicion(self, members: int) -> tuple[float, float]:
        """(Shortest, longest) seconds from the first accusation to death."""
        least = self.suspect_s * max(1.0, math.log10(max(members, 1)))
        return least, least * self.suspect_factor

    def announcements(self, members: int) -> int:
        """Members that a fresh record is announced to."""
        return math.ceil(self.announced * math.log(members + 1))
