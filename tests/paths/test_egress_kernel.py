"""Root queues as they are on this machine; queues that are made: tests/daemon/planning."""

from __future__ import annotations

import pytest

from hostcc.cli.kernel_probes import in_new_netns
from hostcc.errors import HostccError
from hostcc.paths import egress_kernel, egress_queues
from hostcc.paths.egress_kernel import Root
from hostcc.system.netlink import with_pyroute2

pytestmark = pytest.mark.kernel


def test_what_is_there() -> None:
    assert egress_kernel.root("lo") == Root("noqueue", "0:")
    assert egress_kernel.root("hcc-none") is None
    assert egress_kernel.speed_mbit("hcc-none") == 0.0


def test_queues_that_are_made_are_found_and_removed() -> None:
    def live() -> list[object]:
        with_pyroute2(lambda ip: ip.link("add", ifname="q0", kind="veth", peer="q1"))
        before = egress_kernel.root("q0")
        egress_kernel.apply(
            egress_queues.commands(egress_queues.Queues.HTB, "q0", [160, 128], 1000)
        )
        made, ours = egress_kernel.root("q0"), egress_kernel.ours()
        return [before, made, ours, egress_kernel.remove("q0"), egress_kernel.root("q0")]

    default = Root("noqueue", "0:")
    assert in_new_netns(live) == [default, Root("htb", "c1c:"), ["q0"], "", default]


def test_without_tc_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(HostccError, match="iproute2"):
        egress_kernel.root("lo")


def test_only_ours_is_removed() -> None:
    assert egress_kernel.remove("lo") == ""
    assert egress_kernel.remove("hcc-none") == ""


def test_tc_says_what_is_wrong() -> None:
    with pytest.raises(HostccError, match=r"^tc: "):
        egress_kernel.apply(["qdisc add dev hcc-none root pfifo"])
