"""Which process to stop, and when."""

from __future__ import annotations

import os

import pytest

from benchmarks import collide

TEXT = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs
    lo: 1 1 0 0 0 0 0 0 2 2 0 0 0 0 0 0
  eth0:12345 6 0 0 0 0 0 0 67890 7 0 0 0 0 0 0
"""


def test_sent_bytes() -> None:
    assert collide.sent_bytes(TEXT) == 67890
    assert collide.sent_bytes(TEXT, "lo") == 2
    with pytest.raises(collide.GaveUpError):
        collide.sent_bytes(TEXT, "eth1")


def test_a_process_without_a_lab() -> None:
    with pytest.raises(collide.GaveUpError, match="runs no lab"):
        collide.lab_of(os.getpid())
