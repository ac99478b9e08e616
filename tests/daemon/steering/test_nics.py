"""Devices of a namespace that jobs' traffic may leave by, on the kernel."""

from __future__ import annotations

from typing import Any

import pytest

from hostcc.cli.kernel_probes import in_new_netns
from hostcc.daemon.steering.nics import Nic, nics
from hostcc.errors import HostccError
from hostcc.system.netlink import with_pyroute2

pytestmark = pytest.mark.kernel


def made(ip: Any) -> None:
    """A device with two addresses, its other end without one, a bridge with one."""
    ip.link("add", ifname="nic0", kind="veth", peer="nic1")
    ip.link("add", ifname="hub0", kind="bridge")
    for name in ("nic0", "nic1", "hub0"):
        ip.link("set", index=ip.link_lookup(ifname=name)[0], state="up")
    nic0, hub0 = (ip.link_lookup(ifname=name)[0] for name in ("nic0", "hub0"))
    ip.addr("add", index=nic0, address="192.0.2.1", prefixlen=30)
    ip.addr("add", index=nic0, address="2001:db8::1", prefixlen=64)
    ip.addr("add", index=hub0, address="198.51.100.1", prefixlen=24)


def test_devices_with_addresses_that_lead_out() -> None:
    def look() -> tuple[list[Nic], list[Nic]]:
        with_pyroute2(made)
        return nics(), nics(["nic1", "hub0"])

    found, wanted = in_new_netns(look)
    assert [(nic.name, nic.addresses) for nic in found] == [("nic0", ("192.0.2.1", "2001:db8::1"))]
    assert [(nic.name, nic.addresses) for nic in wanted] == [
        ("hub0", ("198.51.100.1",)),
        ("nic1", ()),
    ]


def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(HostccError, match="hcc-none: no such device"):
        nics(["hcc-none"])
