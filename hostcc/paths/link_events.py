"""Reports changes of this host's links and routes (rtnetlink), without polling."""

from __future__ import annotations

from hostcc.errors import HostccError
from hostcc.system.netlink import listen, messages

_GROUPS = 0x1 | 0x40 | 0x400  # RTMGRP_LINK, RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_ROUTE
_NAMES = {16: "a link changed", 17: "a link went", 24: "a route came", 25: "a route went"}


class LinkEvents:
    """Events of the network namespace of the thread that makes it; `fd` is for epoll."""

    def __init__(self) -> None:
        try:
            self._sock = listen(_GROUPS)
        except OSError as error:
            raise HostccError(f"rtnetlink: {error.strerror}") from None

    @property
    def fd(self) -> int:
        """Readable when there are events."""
        return self._sock.fileno()

    def read(self) -> tuple[str, ...]:
        """Return the changes since the last call, each kind once: hints for refresh.Refresh."""
        kinds: dict[str, None] = {}
        while True:
            try:
                data = self._sock.recv(1 << 16)
            except BlockingIOError:
                return tuple(kinds)
            except OSError:  # too many at once for the buffer
                return (*kinds, "many changes of links or routes")
            kinds.update((_NAMES[kind], None) for kind, _, _ in messages(data) if kind in _NAMES)

    def close(self) -> None:
        """Stop listening."""
        self._sock.close()
