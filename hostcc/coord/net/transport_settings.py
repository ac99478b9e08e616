"""Every knob of the transport, with its unit and the reason for its default."""

from __future__ import annotations

from dataclasses import dataclass

from hostcc.coord.core.message import MAX_MESSAGE


@dataclass(frozen=True)
class TransportSettings:
    """Defaults are for hosts of one data centre, up to about 10,000 of them."""

    max_message: int = MAX_MESSAGE
    """Bytes; longer ones end their connection before they are in memory."""
    max_dialled: int = 32
    """Connections that this host keeps to others; the one unused for longest makes room."""
    max_accepted: int = 2048
    """Connections that others may have to this host; 10,000 hosts of 32 each make 32 here."""
    max_strangers: int = 256
    """Of one address at a time, before the first message that came over them."""
    accepts_per_s: float = 200.0
    """A handshake takes about half a millisecond of one CPU: so at most a tenth of one."""
    accepts_burst: float = 400.0
    queue_out: int = 16
    """Messages waiting for one peer; more are dropped, and repaired by the next exchange."""
    queue_in: int = 32
    """Messages of one peer waiting for us; more wait at the sender."""
    messages_per_s: float = 200.0
    """Taken from one peer; more are dropped.  A round of gossip takes about 10."""
    messages_burst: float = 1000.0
    bytes_per_s: float = 1_000_000.0
    """Taken from one peer: ten times what a member sends to all of them."""
    bytes_burst: float = 8_000_000.0
    connects_per_s: float = 1.0
    """Connections of one peer: it keeps 32 and needs a new one to us now and then."""
    connects_burst: float = 30.0
    all_per_s: float = 3000.0
    """Messages taken from all peers together; more wait."""
    all_burst: float = 3000.0
    flood_factor: float = 3.0
    """A connection over which so many times `bytes_per_s` arrive is cut."""
    handshake_s: float = 5.0
    """A connection that is not authenticated by then is ended."""
    connect_s: float = 3.0
    """How long to wait for the other host to accept."""
    down_s: float = 6.0
    """A dialled connection that is not up again by then is given up."""
    idle_s: float = 60.0
    """A dialled connection that was not used for so long is ended."""
    retry_s: tuple[float, float] = (0.5, 8.0)
    """Wait after the first failure and at most, doubled each time, times 0.5 to 1.5."""
    keepalive_s: int = 2
    """Both ends see within three of them that the other host, or the link, is gone; whole
    seconds."""
