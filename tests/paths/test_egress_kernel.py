"""Root queues as they are on this machine; queues that are made: tests/daemon/planning."""

from __future__ import annotations

import pytest

from hostcc.errors import HostccError
from hostcc.paths import egress_kernel
from hostcc.paths.egress_kernel import Root

pytestmark = pytest.mark.kernel


def test_what_is_there() -> None:
    assert egress_kernel.root("lo") == Root("noqueue", "0:")
    assert egress_kernel.root("hcc-none") is None
    assert egress_kernel.speed_mbit("hcc-none") == 0.0


def test_only_ours_is_removed() -> None:
    assert egress_kernel.remove("lo") == ""
    assert egress_kernel.remove("hcc-none") == ""


def test_tc_says_what_is_wrong() -> None:
    with pytest.raises(HostccError, match=r"^tc: "):
        egress_kernel.apply(["qdisc add dev hcc-none root pfifo"])
