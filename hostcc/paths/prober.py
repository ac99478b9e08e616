"""Runs a search against the network."""

from __future__ import annotations

from collections.abc import Iterable
from random import SystemRandom

from hostcc.paths import probe_socket
from hostcc.paths.packets import Target
from hostcc.paths.probe_socket import ProbeSocket
from hostcc.paths.search import Search, SearchResult, SearchSettings

LONGEST_WAIT_S = 0.05


def search(
    target: Target,
    ports: Iterable[int],
    settings: SearchSettings | None = None,
    *,
    limit_s: float = 60.0,
) -> SearchResult:
    """Search all paths to the target, for at most `limit_s` seconds.

    Blocks; runs in the network namespace of the calling thread.  Raises HostccError.
    """
    running = Search(ports, settings, rng=SystemRandom())
    with ProbeSocket(target, running.prefix) as sock:
        end = probe_socket.now() + limit_s
        while not running.done:
            now = probe_socket.now()
            if now >= end:
                break
            for probe in running.due(now):
                sock.send(probe)
            for reply in sock.replies():
                running.heard(reply, probe_socket.now())
            if not running.done:
                now = probe_socket.now()
                sock.wait(min(running.wake(now) - now, LONGEST_WAIT_S))
                for reply in sock.replies():
                    running.heard(reply, probe_socket.now())
    return running.result()
