"""Gives shared memory by descriptor to everybody who may connect to a socket; reads nothing.

A file in /dev/shm can be cut short by whoever may write it, and a process that has it mapped dies
of that.  Memory without a name, sealed against it, cannot; it is handed on over a socket.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from pathlib import Path

from hostcc.errors import HostccError
from hostcc.system import unix_socket
from hostcc.system.closing import Closing
from hostcc.system.region_file import RegionFile

BACKLOG = 64
REST_S = 1e-3
"""Pause between two answers: frequent connections cost some per cent of a processor at most."""
PATIENCE_S = 5.0
"""Time for an answer."""


class Handout(Closing):
    """Gives `fd` to everybody who connects to the socket at `path`, until it is closed.

    What is at the path is replaced.  `group`: whose members may connect; None: only we and root.
    Raises HostccError.
    """

    def __init__(self, path: Path, fd: int, group: int | None = None) -> None:
        try:
            path.unlink(missing_ok=True)  # who has an older one keeps it, and it goes stale
        except OSError as error:
            raise HostccError(f"{path}: {error.strerror}") from None
        self._fd = fd
        self._socket = unix_socket.bind(path, socket.SOCK_STREAM, "PCIe semaphores", group=group)
        try:
            self.file = RegionFile.there(path)
            self._socket.listen(BACKLOG)
        except OSError as error:
            self._socket.close()
            raise HostccError(f"{path}: {error.strerror}") from None
        self._socket.setblocking(True)
        self._thread = threading.Thread(target=self._serve, name="pcie-handout", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close and remove the socket."""
        if self._socket.fileno() < 0:
            return
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._thread.join()
        self._socket.close()
        self.file.unlink()

    def _serve(self) -> None:
        while True:
            try:
                one, _ = self._socket.accept()
            except ConnectionError:  # it has gone already
                continue
            except OSError as error:
                if error.errno in unix_socket.FULL:
                    time.sleep(PATIENCE_S)
                    continue
                return
            with one, contextlib.suppress(OSError):
                one.setblocking(False)
                socket.send_fds(one, [b"\0"], [self._fd])
            time.sleep(REST_S)


def ask(path: Path) -> int:
    """Get the descriptor that is given at `path`.  Raises HostccError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(PATIENCE_S)
        try:
            link.connect(str(path))
            _, fds, _, _ = socket.recv_fds(link, 1, 1)
        except OSError as error:
            raise HostccError(f"{path}: {error.strerror or error}") from None
    if len(fds) != 1:
        raise HostccError(f"{path}: expected shared memory, got nothing; is an agent running?")
    os.set_inheritable(fds[0], False)
    return fds[0]
