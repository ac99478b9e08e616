"""The process that connected is told apart from all others, dead and alive."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from hostcc.daemon.api.credentials import Peer, PeerProcess, peer_of
from hostcc.errors import DeniedError, HostccError


@contextmanager
def connected(path: Path) -> Iterator[tuple[Peer, Callable[[], None]]]:
    """A child that connected, as the server sees it; and what ends the child."""
    ends, end = os.pipe()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        pid = os.fork()
        if pid == 0:
            os.close(end)
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))
                os.read(ends, 1)
            os._exit(0)
        os.close(ends)
        accepted, _ = server.accept()
        left = [end]

        def finish() -> None:
            os.close(left.pop())
            os.waitpid(pid, 0)

        with accepted:
            yield peer_of(accepted), finish
            if left:
                finish()


@pytest.mark.parametrize("pidfd", [True, False], ids=["descriptor", "start time"])
def test_a_process_that_has_ended_is_refused(tmp_path: Path, *, pidfd: bool) -> None:
    with connected(tmp_path / "s") as (found, finish):
        peer = found if pidfd else replace(found, open_pidfd=None)
        with PeerProcess(peer) as process:
            process.check()
            finish()
            with pytest.raises(HostccError, match=f"process {peer.pid}, which connected, has end"):
                process.check()
        with pytest.raises(HostccError, match="has ended"), PeerProcess(peer):
            pass


def test_a_number_used_again_is_refused() -> None:
    """By start time, where the kernel gives no descriptor; our own number stands for the other."""
    now = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    again = Peer(os.getpid(), os.getuid(), frozenset(), started=int(now) - 1)
    with pytest.raises(HostccError, match="has ended"), PeerProcess(again):
        pass
    with PeerProcess(replace(again, started=int(now))):
        pass


def test_a_process_that_became_another_users_is_refused(tmp_path: Path) -> None:
    with connected(tmp_path / "s") as (peer, _):
        other = replace(peer, uid=os.getuid() + 1)
        with pytest.raises(DeniedError, match=f"no longer one of uid {other.uid}"):
            PeerProcess(other).__enter__()


def test_a_process_of_another_pid_namespace_is_refused() -> None:
    with pytest.raises(HostccError, match="cannot be seen"), PeerProcess(Peer(0, 7, frozenset())):
        pass
