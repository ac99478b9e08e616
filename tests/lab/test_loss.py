"""Packets lost at a port: all of them, and then none any more."""

from __future__ import annotations

import socket

import pytest

from hostcc.lab import loss, netns
from hostcc.lab.leafspine import LeafSpine
from hostcc.lab.leafspine_plan import LeafSpineSpec

PORT = 5001
SENT = 20


@pytest.mark.kernel
def test_what_is_lost_does_not_arrive() -> None:
    with LeafSpine(LeafSpineSpec(spines=1)) as lab:
        near, far = lab.hosts
        leaf = lab.namespace("leaf1")

        def arrived(patience_s: float = 60.0) -> int:
            listener = netns.inside(
                lab.namespace(far.name), lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            )
            sender = netns.inside(
                lab.namespace(near.name), lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            )
            with listener, sender:
                listener.bind((far.address, PORT))
                listener.settimeout(patience_s)
                for _ in range(SENT):
                    sender.sendto(b"x", (far.address, PORT))
                count = 0
                try:
                    while count < SENT:
                        listener.recv(1)
                        count += 1
                except TimeoutError:
                    pass
                return count

        assert arrived() == SENT
        loss.begin(leaf, near.name, 1000)
        assert arrived(1.0) == 0
        loss.end(leaf, near.name)
        assert arrived() == SENT
