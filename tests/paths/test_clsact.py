"""Filters where there is no tcx, on the kernel: as pyroute2 makes them, and taken over."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable
from typing import Any

import pytest

from hostcc.bpf.loader.errors import BpfError
from hostcc.bpf.loader.object import BpfObject
from hostcc.bpf.loader.objects import object_path
from hostcc.cli.kernel_probes import in_new_netns
from hostcc.paths import clsact, hooks
from hostcc.paths.hooks import EGRESS, INGRESS, Way
from hostcc.paths.steer_kernel import PROGRAMS, SteerKernel
from hostcc.system.netlink import attributes, dump, with_pyroute2

pytestmark = pytest.mark.kernel

LOOPBACK = 1
PARENTS = {INGRESS: clsact.INGRESS, EGRESS: clsact.EGRESS}
BPF_ID = 11


@pytest.fixture
def program() -> Any:
    with BpfObject.open(object_path("steer")) as steer:
        for one in steer.programs():
            steer.set_autoload(one, one == PROGRAMS[INGRESS])
        steer.load()
        yield steer.program_fd(PROGRAMS[INGRESS])


def described(add: Callable[[], None]) -> list[tuple[int, dict[int, bytes]]]:
    """What the kernel says of the filters on ingress once this has been done, but for their ids."""

    def look() -> list[tuple[int, dict[int, bytes]]]:
        clsact.add_qdisc(LOOPBACK)
        add()
        found = []
        for one in dump(46, struct.pack("=BxxxiIII", 0, LOOPBACK, 0, clsact.INGRESS, 0)):
            options = attributes(attributes(one[20:]).get(2, b""))
            if options:
                options.pop(BPF_ID)
                found.append((struct.unpack_from("=I", one, 16)[0], options))
        return found

    return in_new_netns(look)


def test_a_filter_is_as_pyroute2_makes_it(program: int) -> None:
    ours = described(lambda: clsact.add_filter(program, LOOPBACK, clsact.INGRESS, "steer"))
    theirs = described(
        lambda: with_pyroute2(
            lambda ip: ip.tc(
                "add-filter", "bpf", LOOPBACK, fd=program, name="steer", direct_action=True,
                parent=clsact.INGRESS, prio=clsact.PRIORITY, protocol=3,
            )
        )
    )  # fmt: skip
    assert len(ours) == 1
    assert ours == theirs


def test_what_the_kernel_refuses_has_its_reason(program: int) -> None:
    with pytest.raises(BpfError, match="traffic control refused") as caught:
        clsact.add_filter(program, 999, clsact.INGRESS, "steer")
    assert caught.value.errno == errno.ENODEV


def test_the_next_agent_takes_over_and_removes() -> None:
    def attached() -> list[tuple[str, Way, str]]:
        names = list(PROGRAMS.values())
        return [
            (hook, one.way, one.name)
            for hook in PARENTS
            for one in hooks.attached(LOOPBACK, hook, names)
        ]

    def live() -> list[Any]:
        first = SteerKernel(["lo"], None, 30.0, way=Way.CLSACT)
        first.close()
        left = attached()
        second = SteerKernel(["lo"], None, 30.0, way=Way.CLSACT)
        replaced = attached()
        second.remove()
        return [left, second.adopted, replaced, attached()]

    left, adopted, replaced, after = in_new_netns(live)
    assert left == replaced == [(hook, Way.CLSACT, PROGRAMS[hook]) for hook in (INGRESS, EGRESS)]
    assert adopted
    assert after == []
