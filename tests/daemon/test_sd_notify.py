"""What systemd hears."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from hostcc.daemon.sd_notify import Notifier


@pytest.mark.parametrize("abstract", [False, True])
def test_messages(tmp_path: Path, abstract: bool) -> None:
    name = f"@hostcc-test-{os.getpid()}" if abstract else str(tmp_path / "n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind("\0" + name[1:] if abstract else name)
        systemd.settimeout(5)
        notifier = Notifier({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "3000000"})
        assert notifier.watchdog_s == 3.0
        notifier.ready("2 jobs")
        notifier.alive()
        notifier.reloading(12)
        notifier.stopping()
        heard = [systemd.recv(999).decode() for _ in range(4)]
    assert heard == [
        "READY=1\nSTATUS=2 jobs",
        "WATCHDOG=1",
        "RELOADING=1\nMONOTONIC_USEC=12",
        "STOPPING=1",
    ]


def test_without_systemd(tmp_path: Path) -> None:
    Notifier({}).ready("x")
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).stopping()
    assert Notifier({"WATCHDOG_USEC": "5", "WATCHDOG_PID": "1"}).watchdog_s == 0.0
