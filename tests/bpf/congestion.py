"""Which congestion controls the kernel knows."""

from __future__ import annotations

import time
from pathlib import Path

from tests.patience import Patience

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
GIVE_UP_S = 120


def registered(name: str) -> bool:
    return name in AVAILABLE.read_text().split()


def eventually_gone(name: str) -> bool:
    """The kernel takes links down after the process is gone, in its own time."""
    patience = Patience(GIVE_UP_S)
    while registered(name) and patience.lasts():
        time.sleep(0.02)
    return not registered(name)
