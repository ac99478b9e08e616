"""What an agent answers about the other members: `hostcc peers`, and a block of the status."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from hostcc.answers.fields import Counter, Seconds

PEERS = "hostcc.peers/1"


class Trouble(Struct, frozen=True):
    """Why another member is not reached, or not let in."""

    reason: str
    """One of those in
    [gossip.md](internals/gossip.md#reasons-why-members-do-not-reach-each-other)."""
    who: str
    """`seed NAME@HOST:PORT`, `member NAME@HOST:PORT`, an address that somebody came from, or
    `gossip process`."""
    text: str
    """The reason in words that say what to do."""


class OtherOptions(Struct, frozen=True):
    """A value that other members have."""

    value: str
    """As their configuration would say it."""
    members: tuple[str, ...]
    """The first eight of them by name."""
    count: int
    """How many there are in all."""


class Disagreement(Struct, frozen=True):
    """Something that plans depend on and that is not the same on all members."""

    option: str
    """`plan.KEY`, or `scheduler`."""
    here: str
    """The value on this host."""
    there: tuple[OtherOptions, ...]
    """The values on others."""


class ProcessStatus(Struct, frozen=True):
    """The process in which messages are moved."""

    pid: int | None
    """None: it is away, and will be started again."""
    restarts: Annotated[
        int,
        Counter(
            "hostcc_gossip_process_restarts",
            "How often the process with the connections was started again",
        ),
    ]
    """How often it was started again."""
    reason: str | None
    """Why it ended the last time; None: it never did."""


class GossipStatus(Struct, frozen=True, kw_only=True):
    """Who this host is among the others, and what they agree on."""

    name: str
    """Of this host."""
    listen: str
    """HOST:PORT."""
    insecure: bool
    """There are no keys: whoever reaches the port may say anything."""
    key: str = ""
    """Fingerprint of the key in use; empty: none."""
    members: dict[str, int]
    """How many others are `alive`, `suspect`, `dead`."""
    seeds: dict[str, int] = {}
    """How many seeds of the configuration, this host left out, are `reached` and `missing`."""
    held: str
    """Digest of the view that this host holds; empty: none."""
    active: str
    """Digest of the view whose plan it follows; empty: none."""
    plan: str = ""
    """Digest of what it is to do by its plan; empty: nothing."""
    agreed: bool
    """Whether those that matter held the active view, too, or are to follow the same plan."""
    missing: tuple[str, ...]
    """Members that it waits for, or has stopped waiting for."""
    troubles: tuple[Trouble, ...]
    """Why others are not reached, or not let in."""
    dialled: int = 0
    """Connections that this host has opened."""
    accepted: int = 0
    """Connections that others have opened."""
    process: ProcessStatus | None = None
    """What has the connections; None: the agent itself."""
    counters: dict[str, int] = {}
    """Messages and bytes sent and received; what was dropped or refused, by reason."""


class Gossip(GossipStatus, frozen=True, kw_only=True):
    """The block `gossip` of the status."""

    unpublished: dict[str, str]
    """Job to the reason why the others would not take its profile."""
    disagreements: tuple[Disagreement, ...]
    """What plans depend on and is not the same on all members."""


class PeerStatus(Struct, frozen=True):
    """One other member."""

    name: str
    """Of the member."""
    address: str
    """HOST:PORT as it says itself; empty: it does not."""
    state: str
    """`alive`, `suspect` or `dead`."""
    link: str
    """`dialled`, `accepted`, `connecting`, or `none` at the moment."""
    rtt_s: Seconds | None
    """From a ping to its answer, averaged; else the kernel's figure; None: never measured."""
    version: str
    """Of its hostcc."""
    held: str
    """Digest of the view that it holds; empty: it has not said. Only members that share jobs or
    links with this host do."""
    active: str
    """Digest of the view whose plan it follows; empty: it has not said."""
    heard_s: Seconds | None
    """Since its last message to this host; None: there was none."""
    shut_out: bool
    """It sent what it should not, and is not listened to for now."""
    plan: str = ""
    """Digest of what it is to do by its plan, as it has told this host; empty: nothing, or its
    version is older."""
    clock_error_s: Seconds | None = None
    """How well this host knows that member's clock: the most that it is off by; None: not at all.
    """
    differs: tuple[str, ...] = ()
    """Options in which its plans differ from this host's: `plan.KEY`, or `scheduler`."""


class Peers(Struct, frozen=True, kw_only=True):
    """All other members. Without gossip the request fails and says why."""

    schema: str = PEERS
    """Names this form."""
    name: str
    """Of this host."""
    held: str
    """Digest of the view that this host holds; empty: none."""
    active: str = ""
    """Digest of the view whose plan it follows; empty: none."""
    plan: str = ""
    """Digest of what it is to do by its plan; empty: nothing."""
    key: str
    """Fingerprint of the key in use; empty: none."""
    process: ProcessStatus | None = None
    """What has the connections; None: the agent itself."""
    troubles: tuple[Trouble, ...]
    """Why others are not reached, or not let in."""
    disagreements: tuple[Disagreement, ...]
    """What plans depend on and is not the same on all members."""
    peers: tuple[PeerStatus, ...]
    """The members, by name."""
