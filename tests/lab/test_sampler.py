"""Byte counters out of /proc/net/dev."""

from __future__ import annotations

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
