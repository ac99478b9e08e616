"""Processes in namespaces: a signal while one is started is not lost, and none inherits a mask."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from hostcc.lab import netns

pytestmark = pytest.mark.kernel


@pytest.fixture
def namespace() -> Iterator[str]:
    name = f"hcc-test-{os.getpid()}"
    netns.create([name])
    yield name
    netns.remove([name])


class EndedError(Exception):
    """What the handler raises."""


def test_a_signal_during_the_fork_is_handled_after_it(namespace: str) -> None:
    forked = False

    def handle(number: int, frame: object) -> None:
        raise EndedError

    def interrupt() -> None:
        nonlocal forked
        if not forked:
            forked = True
            os.kill(os.getpid(), signal.SIGTERM)

    os.register_at_fork(after_in_parent=interrupt)
    before = signal.signal(signal.SIGTERM, handle)
    try:
        with pytest.raises(EndedError):
            netns.spawn(["true"], namespace=namespace, cgroup=None)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert forked


def test_masks_are_as_before(namespace: str) -> None:
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, set())
    process = netns.spawn(
        ["sed", "-n", "s/^SigBlk:[[:space:]]*//p", "/proc/self/status"],
        namespace=namespace,
        cgroup=None,
        stdout=subprocess.PIPE,
    )
    said, _ = process.communicate()
    blocked = {one for one in signal.Signals if int(said, 16) >> (one - 1) & 1}
    assert blocked == {one for one in mask if isinstance(one, signal.Signals)}
    assert signal.pthread_sigmask(signal.SIG_BLOCK, set()) == mask
