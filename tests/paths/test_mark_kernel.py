"""DSCP of jobs' sockets: new and live, IPv4 and IPv6, TCP and UDP, and never others'."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostcc.bpf.loader.netns import in_netns
from hostcc.daemon.changes import path_kinds
from hostcc.mltcp.params import Variant
from hostcc.paths.mark_kernel import JobMark, MarkKernel
from tests.bpf.detaching import detach_links, links_on
from tests.mltcp.stage import mltcp
from tests.patience import until

pytestmark = pytest.mark.kernel

MARKED = Path(__file__).with_name("marked.py")
HIGH, LOW, OWN = 40 << 2, 8 << 2, 46 << 2
BOUND, PACE_BPS, FLOOD_BYTES = 4, 1.25e9 + 1 / 3, 64 << 20


class Process:
    def __init__(self, cgroup: Path) -> None:
        run = f"{sys.executable} -S -I {MARKED}"
        join = f"echo $$ > {cgroup}/cgroup.procs"
        self.process = subprocess.Popen(
            ["unshare", "-n", "sh", "-c", f"{join}; ip link set lo up; exec {run}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.netns = Path(f"/proc/{self.process.pid}/ns/net")

    def ask(self, order: str, **arguments: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([order, arguments]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def process(cgroup: Path) -> Iterator[Process]:
    made = Process(cgroup)
    yield made
    made.close()


@pytest.fixture
def kernel() -> Iterator[MarkKernel]:
    with MarkKernel() as loaded:
        yield loaded


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_tcp(kernel: MarkKernel, process: Process, cgroup: Path, address: str) -> None:
    port = process.ask("listen", name="listener", address=address)
    assert process.ask("connect", name="before", address=address, port=port) == 0
    process.ask("accept", name="before-in", listener="listener")
    kernel.set_job(1, JobMark(HIGH))
    kernel.attach(1, cgroup)
    assert process.ask("connect", name="new", address=address, port=port) == HIGH
    assert process.ask("accept", name="new-in", listener="listener") == HIGH
    assert process.ask("connect", name="own", address=address, port=port, own_tos=OWN) == OWN
    process.ask("accept", name="own-in", listener="listener")

    kernel.set_cgroup_ids({cgroup.stat().st_ino: 1})
    walked = kernel.walk([process.netns])
    assert process.ask("tos", name="before") == HIGH
    assert process.ask("tos", name="before-in") == HIGH
    assert process.ask("tos", name="own") == OWN
    assert (walked.seen, walked.set, walked.foreign, walked.failed) == (6, 2, 1, 0)

    kernel.set_job(1, JobMark(LOW))  # a new plan
    assert kernel.walk([process.netns]).set == 5
    assert {process.ask("tos", name=n) for n in ("before", "new", "new-in")} == {LOW}

    process.ask("set_tos", name="new", value=OWN)  # its application changes its mind
    kernel.set_job(1, JobMark(HIGH))
    kernel.walk([process.netns])
    assert process.ask("tos", name="new") == OWN
    kernel.set_job(1, JobMark(HIGH, force=True))
    kernel.walk([process.netns])
    assert process.ask("tos", name="own") == HIGH

    kernel.clear([process.netns])
    after = {n: process.ask("tos", name=n) for n in ("before", "new-in", "own", "new")}
    assert after == {"before": 0, "new-in": 0, "own": OWN, "new": OWN}


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_udp(kernel: MarkKernel, process: Process, cgroup: Path, address: str) -> None:
    kernel.set_job(1, JobMark(HIGH))
    kernel.attach(1, cgroup)
    assert process.ask("connect", name="c", address=address, port=9, udp=True) == HIGH
    assert process.ask("sendto", name="s", address=address, port=9) == HIGH
    kernel.set_job(1, JobMark(LOW))
    assert process.ask("sendto", name="s", address=address, port=9) == LOW
    own = process.ask("connect", name="o", address=address, port=9, udp=True, own_tos=OWN)
    assert own == OWN
    kernel.set_job(1, None)
    assert process.ask("sendto", name="s", address=address, port=9) == 0


def test_others_are_left_alone(kernel: MarkKernel, process: Process, cgroup2: Path) -> None:
    kernel.set_job(1, JobMark(HIGH))
    port = process.ask("listen", name="listener", address="127.0.0.1")
    assert process.ask("connect", name="other", address="127.0.0.1", port=port) == 0
    walked = kernel.walk([process.netns])
    assert walked.set == 0
    assert process.ask("tos", name="other") == 0


def test_port_rules(kernel: MarkKernel, process: Process, cgroup: Path) -> None:
    port = process.ask("listen", name="listener", address="127.0.0.1")
    kernel.set_job(2, JobMark(LOW))
    kernel.set_ports({(port, True): 2})
    kernel.attach_rules(cgroup)
    assert process.ask("connect", name="new", address="127.0.0.1", port=port) == LOW


@pytest.mark.parametrize("marked", [False, True])
def test_a_jobs_group_comes_before_a_port_rule(
    process: Process, cgroup: Path, marked: bool
) -> None:
    """Also where its job has no mark: it does not get the rule's."""
    port = process.ask("listen", name="listener", address="127.0.0.1")
    with mltcp(Variant.CUBIC) as tracker, MarkKernel(tracker.shared_maps["flows"]) as kernel:
        tracker.attach_cgroup(1, cgroup)
        kernel.set_job(1, JobMark(HIGH) if marked else None)
        if marked:
            kernel.attach(1, cgroup)
        kernel.set_job(2, JobMark(LOW))
        kernel.set_ports({(port, True): 2})
        kernel.attach_rules(cgroup)
        expected = HIGH if marked else 0
        assert process.ask("connect", name="new", address="127.0.0.1", port=port) == expected
        kernel.set_cgroup_ids({cgroup.stat().st_ino: 1})
        kernel.walk([process.netns])
        assert process.ask("tos", name="new") == expected
        tracker.detach_cgroup(1)
        assert process.ask("connect", name="ruled", address="127.0.0.1", port=port) == LOW


def test_pace_and_bound(kernel: MarkKernel, process: Process, cgroup: Path) -> None:
    port = process.ask("listen", name="listener", address="127.0.0.1")
    process.ask("connect", name="c", address="127.0.0.1", port=port)
    before = process.ask("pace", name="c")
    kernel.set_cgroup_ids({cgroup.stat().st_ino: 1})
    kernel.set_job(1, JobMark(pace_bps=125e6, clamp_packets=20))
    kernel.walk([process.netns])
    assert process.ask("pace", name="c") == 125_000_000
    shown = in_netns(process.netns, _ss)
    assert "pacing_rate" in shown
    assert process.ask("tos", name="c") == 0
    kernel.clear([process.netns])
    assert process.ask("pace", name="c") == before


def test_a_window_is_free_again(kernel: MarkKernel, process: Process, cgroup: Path) -> None:
    port = process.ask("listen", name="listener", address="127.0.0.1")
    process.ask("connect", name="c", address="127.0.0.1", port=port)
    process.ask("accept", name="in", listener="listener")
    kernel.set_cgroup_ids({cgroup.stat().st_ino: 1})
    kernel.set_job(1, JobMark(clamp_packets=BOUND))
    kernel.walk([process.netns])
    assert process.ask("flood", name="c", sink="in", size=FLOOD_BYTES) <= BOUND
    kernel.clear([process.netns])
    assert process.ask("flood", name="c", sink="in", size=FLOOD_BYTES) > BOUND


def test_what_a_dead_agent_left_is_taken_away(process: Process, cgroup: Path) -> None:
    port = process.ask("listen", name="listener", address="127.0.0.1")
    process.ask("connect", name="c", address="127.0.0.1", port=port)
    process.ask("accept", name="in", listener="listener")
    before = process.ask("pace", name="c")
    made = path_kinds.mark("a", HIGH, "the plan", PACE_BPS, BOUND)
    for mark in JobMark(HIGH, False, PACE_BPS, BOUND), path_kinds.stray_of(made):
        with MarkKernel() as kernel:
            kernel.set_cgroup_ids({cgroup.stat().st_ino: 1})
            kernel.set_job(1, mark)
            kernel.walk([process.netns])
        if mark.tos is not None:
            assert process.ask("pace", name="c") == int(PACE_BPS)
            assert process.ask("flood", name="c", sink="in", size=FLOOD_BYTES) <= BOUND
    assert (process.ask("tos", name="c"), process.ask("pace", name="c")) == (0, before)
    assert process.ask("flood", name="c", sink="in", size=FLOOD_BYTES) > BOUND


def _ss() -> str:
    return subprocess.run(["ss", "-tin"], capture_output=True, text=True, check=True).stdout


def test_what_somebody_detached_and_not_what_has_ended(kernel: MarkKernel, cgroup: Path) -> None:
    group = cgroup / "short"
    group.mkdir()
    number = group.stat().st_ino
    kernel.attach(1, group)
    assert not kernel.detached(1, group)
    assert detach_links(number) > 0
    assert kernel.detached(1, group)
    kernel.attach(1, group)
    group.rmdir()
    until(lambda: not list(links_on(number)), "the kernel to detach")
    assert not kernel.detached(1, group)
