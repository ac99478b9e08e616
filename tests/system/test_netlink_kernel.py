"""Questions to the kernel by pyroute2, from wherever they are asked."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from hostcc.cli.kernel_probes import in_new_netns
from hostcc.system.netlink import with_pyroute2

pytestmark = pytest.mark.kernel


def names(ip: Any) -> list[str]:
    return [link.get("ifname") for link in ip.get_links()]


@pytest.mark.asyncio
async def test_a_running_event_loop_is_no_obstacle() -> None:
    assert "lo" in with_pyroute2(names)


def test_the_namespace_of_whoever_asks_is_meant() -> None:
    def make() -> list[str]:
        with_pyroute2(lambda ip: ip.link("add", ifname="asked0", kind="veth", peer="asked1"))
        return with_pyroute2(names)

    assert set(in_new_netns(make)) >= {"lo", "asked0", "asked1"}
    assert "asked0" not in with_pyroute2(names)


def test_what_the_kernel_refuses_is_an_os_error() -> None:
    with pytest.raises(OSError, match="No such device") as caught:
        in_new_netns(lambda: with_pyroute2(lambda ip: ip.tc("add", "clsact", 999)))
    assert caught.value.errno == errno.ENODEV
    assert caught.value.strerror == "No such device"
