"""Reads records of in-band telemetry, from a file or at a socket.

The kernel decides who may send: the socket is root's, or a group's, in a directory that nobody else
writes to.  The agent takes a bounded number of lines a tick; senders of more wait, or are refused
for lack of room.
"""

from __future__ import annotations

import asyncio
import socket
import stat
import time
from pathlib import Path

from hostcc.answers.parts import TelemetryPart
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
MAX_LINES_PER_TICK = 1000
"""Lines taken in a tick; one more datagram may exceed it."""
FORGET_S = 5.0
"""Time between two sweeps of old records."""


class Records:
    """Records of telemetry so far."""

    def __init__(self) -> None:
        self.source = TelemetrySource()
        self._forget_at = 0.0

    def current(self, config: PathsConfig) -> PathSource:
        """Return them with all that was added to the file, if there is one.  Raises HostccError."""
        if config.file:
            self.source.read_file(Path(config.file))
        if self.stale:
            self.forget(config.full_s)
        return self.source

    @property
    def stale(self) -> bool:
        """Check whether a sweep of old records is due."""
        return time.monotonic() >= self._forget_at

    def forget(self, max_age_s: float) -> None:
        """Drop old records; blocks too long for the agent's loop when there are very many."""
        self._forget_at = time.monotonic() + FORGET_S
        self.source.forget(time.time(), max_age_s)


class TelemetryListener:
    """The part that takes records at a socket and puts them `into`."""

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
        """Say why it is disabled."""
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
        """Take records that have arrived."""
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
        """Check that the socket is still ours, with our permissions."""
        found = _state(Path(self._of[0]))
        if found == self._made:
            return []
        what = _words(found) if found[:1] == self._made[:1] else "absent or replaced"
        return [Difference("telemetry-socket", self._of[0], _words(self._made), what)]

    def view(self) -> TelemetryPart:
        """Return its path, the number of records, and of refused lines."""
        source = self._into.source
        return TelemetryPart(socket=self._of[0], records=len(source), refused=source.refused)

    def _listen(self) -> None:
        # Until so many lines have come; the rest waits.
        self._lines = 0
        assert self._socket is not None
        asyncio.get_running_loop().add_reader(self._socket, self._receive, self._socket)

    def _receive(self, sock: socket.socket) -> None:
        self._lines += self._into.source.read_socket(sock)
        if self._lines >= MAX_LINES_PER_TICK:
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
