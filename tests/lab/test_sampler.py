"""Byte counters out of /proc/net/dev."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from hostcc.lab.sampler import is_host_port, parse_sent, table

TEXT = b"""Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs
    lo:       0       0    0    0    0     0          0         0        0       0    0
    h2:    1000      10    0    0    0     0          0         0     5000      20    0
   h10:    1000      10    0    0    0     0          0         0     7000      20    0
"""


def test_sent_bytes_by_device() -> None:
    assert parse_sent(TEXT) == {"lo": 0, "h2": 5000, "h10": 7000}


def test_only_ports_to_hosts_count() -> None:
    assert [name for name in ("lo", "mid", "h1", "h10", "hx") if is_host_port(name)] == [
        "h1",
        "h10",
    ]


def test_table_has_a_column_for_each_port_of_all_switches() -> None:
    other = TEXT.replace(b"h2:", b"h1:").replace(b"h10:", b"h9:")
    arrays = table([[TEXT, other], [TEXT, other]])
    assert arrays["ports"].tolist() == ["h1", "h2", "h9", "h10"]
    assert arrays["bytes"].tolist() == [[5000, 5000, 7000, 7000]] * 2


def test_the_shortest_run_has_a_sample_before_and_one_after_it(tmp_path: Path) -> None:
    out = tmp_path / "samples.npz"
    rarely_ms = "1e9"
    process = subprocess.Popen(
        [sys.executable, "-m", "hostcc.lab.sampler", str(out), rarely_ms],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"sampling\n"  # what runs may begin
    process.communicate()
    assert process.returncode == 0
    with np.load(out) as data:
        before, after = data["times"]
    assert before < after
