"""Every setting of the transport: meaning, unit, and reason for its default."""

from __future__ import annotations

from dataclasses import dataclass

from hostcc.coord.core.message import MAX_MESSAGE


@dataclass(frozen=True)
class TransportSettings:
    """Defaults suit the hosts of one data centre, up to about 10,000."""

    max_message: int = MAX_MESSAGE
    """Bytes; a longer message closes its connection before it is in memory."""
    max_dialled: int = 32
    """Connections that this host keeps to others; the one unused for longest makes room."""
    max_accepted: int = 2048
    """Connections from others; 10,000 hosts with 32 each make about 32 to each host."""
    max_strangers: int = 256
    """Connections from one address at a time that have not carried a message yet."""
    accepts_per_s: float = 200.0
    """Connections accepted per second. A handshake costs about half a millisecond of CPU, so this
    is a tenth of one CPU."""
    accepts_burst: float = 400.0
    queue_out: int = 16
    """Messages queued for one peer; more are dropped, and repaired by the next exchange."""
    queue_in: int = 32
    """Received messages queued from one peer; more wait at the sender."""
    messages_per_s: float = 200.0
    """Messages accepted from one peer; more are dropped. A round of gossip takes about 10."""
    messages_burst: float = 1000.0
    bytes_per_s: float = 1_000_000.0
    """Bytes accepted from one peer: ten times what a member sends to all of them."""
    bytes_burst: float = 8_000_000.0
    connects_per_s: float = 1.0
    """Connections from one peer: it keeps 32 and needs a new one to us now and then."""
    connects_burst: float = 30.0
    all_per_s: float = 3000.0
    """Messages accepted from all peers together; more wait."""
    all_burst: float = 3000.0
    flood_factor: float = 3.0
    """A connection that receives this many times `bytes_per_s` is cut."""
    handshake_s: float = 5.0
    """Seconds after which a connection that has not authenticated is closed."""
    connect_s: float = 3.0
    """Seconds to wait for the other host to accept."""
    down_s: float = 6.0
    """Seconds after which a dialled connection that is not up again is given up."""
    idle_s: float = 60.0
    """Seconds after which an unused dialled connection is closed."""
    retry_s: tuple[float, float] = (0.5, 8.0)
    """Seconds to wait after the first failure, and at most; doubled each time, times 0.5 to 1.5."""
    keepalive_s: int = 2
    """TCP keep-alive interval in whole seconds; a dead host or link is noticed within three."""
