"""Records of in-band telemetry: read from a file, and taken at a socket by a part of the agent.

Who may send is the kernel's business: the socket is root's, or a group's, in a directory that
nobody else writes to.  How much is taken is ours: so many lines a turn, and the senders of more
wait, or are told that there is no room.
"""

from __future__ import annotations

import asyncio
import socket
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hostcc.config.sections.paths import PathsConfig
from hostcc.daemon.api.credentials import group_id
from hostcc.daemon.steering.survey_task import disabled_reason
from hostcc.daemon.supervisor import Host
from hostcc.errors import InputError
from hostcc.model import Difference
from hostcc.paths.sources import PathSource
from hostcc.paths.telemetry import TelemetrySource
from hostcc.system import ownership, unix_socket

TICK_S = 0.25
MOST = 1000
"""Lines that are looked at in a turn, and those of one more datagram."""
FORGET_S = 5.0
"""Between two looks at what is too old."""


class Records:
    """What telemetry has said."""

    def __init__(self) -> None:
        self.source = TelemetrySource()
        self._forget_at = 0.0

    def current(self, config: PathsConfig) -> PathSource:
        """With all that was written to the file, if there is one.  Raises HostccError."""
        if config.file:
            self.source.read_file(Path(config.file))
        if self.stale:
            self.forget(config.full_s)
        return self.source

    @property
    def stale(self) -> bool:
        """Whether it is time to forget."""
        return time.monotonic() >= self._forget_at

    def forget(self, max_age_s: float) -> None:
        """Drop what is too old; with very many records it takes too long for the agent's loop."""
        self._forget_at = time.monotonic() + FORGET_S
        self.source.forget(time.time(), max_age_s)


class TelemetryListener:
    """The part that takes records at a socket.  `into`: where they go."""

    name = "telemetry"
    every_s = TICK_S

    def __init__(self, host: Host, into: Records) -> None:
        self._host, self._into = host, into
        self._socket: socket.socket | None = None
        # Path and group that it was made for.
        self._of: tuple[str, str] = "", ""
        self._made: tuple[int, ...] = ()
        self._lines = 0

    def disabled_reason(self) -> str:
        """Configured away?"""
        config = self._host.config.paths
        if why := disabled_reason(self._host):
            return why
        if config.source != "telemetry":
            return f'paths.source is "{config.source}"'
        return "" if config.socket else "paths.socket is not set"

    def start(self) -> None:
        """Listen.  Raises HostccError."""
        config = self._host.config.paths
        path, group = Path(config.socket), group_id(config.socket_group)
        if config.socket_group and group is None:
            raise InputError(
                f"paths.socket_group: expected a group of this host, got {config.socket_group}"
            )
        ownership.check_directory(path.parent)
        self._socket = unix_socket.bind(path, socket.SOCK_DGRAM, "telemetry socket", group=group)
        self._of, self._made = (config.socket, config.socket_group), _state(path)
        self._listen()

    async def tick(self) -> None:
        """Take more."""
        config = self._host.config.paths
        if self._of != (config.socket, config.socket_group):
            self.stop()
            self.start()
        self._listen()
        if self._into.stale:
            await asyncio.to_thread(self._into.forget, config.full_s)

    def stop(self) -> None:
        """Close the socket, and remove it if it is still ours."""
        if self._socket is None:
            return
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._socket = None
        path = Path(self._of[0])
        if _state(path)[:1] == self._made[:1]:
            path.unlink(missing_ok=True)

    def verify(self) -> list[Difference]:
        """Whether the socket is still ours, and for nobody else."""
        found = _state(Path(self._of[0]))
        if found == self._made:
            return []
        what = _words(found) if found[:1] == self._made[:1] else "absent or replaced"
        return [Difference("telemetry-socket", self._of[0], _words(self._made), what)]

    def view(self) -> Mapping[str, Any]:
        """Where it listens, how many records are kept, how many lines were not taken."""
        source = self._into.source
        return {"socket": self._of[0], "records": len(source), "refused": source.refused}

    def _listen(self) -> None:
        # Until so many lines have come; the rest waits.
        self._lines = 0
        assert self._socket is not None
        asyncio.get_running_loop().add_reader(self._socket, self._receive, self._socket)

    def _receive(self, sock: socket.socket) -> None:
        self._lines += self._into.source.read_socket(sock)
        if self._lines >= MOST:
            asyncio.get_running_loop().remove_reader(sock)


def _state(path: Path) -> tuple[int, ...]:
    # Inode, permissions, owner, group; empty: nothing is there.
    try:
        found = path.lstat()
    except OSError:
        return ()
    return found.st_ino, stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid


def _words(state: tuple[int, ...]) -> str:
    _, mode, owner, group = state
    return f"mode {mode:04o}, uid {owner}, gid {group}"
