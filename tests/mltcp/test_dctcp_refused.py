"""DCTCP where the peer refuses ECN: reno, and nothing that asks switches for marks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hostcc.lab import netns
from hostcc.lab.scenario import FabricSpec
from hostcc.mltcp.params import JobParams, Mode, Variant
from tests.mltcp.dctcp_oracle import ECN_OK
from tests.mltcp.dctcp_trace import recording
from tests.mltcp.stage import Stage, delivered, follow, mltcp

pytestmark = pytest.mark.kernel

BYTES = 1_000_000
FLOWS = 4
JOB = JobParams(name="deaf", variant=Variant.DCTCP, mode=Mode.STATIC)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(FabricSpec(rate_mbit=200, buffer_packets=60, ecn_threshold_packets=10)) as made:
        yield made


@contextmanager
def ecn(stage: Stage, host: int, mode: int) -> Iterator[None]:
    """sysctl tcp_ecn of a host: 0 refuses, 1 asks, 2 accepts."""
    namespace = stage.fabric.namespace(stage.host(host).name)
    netns.set_sysctls(namespace, {"net/ipv4/tcp_ecn": str(mode)})
    yield
    netns.set_sysctls(namespace, {"net/ipv4/tcp_ecn": "2"})


def capable(stage: Stage, host: int) -> int:
    """Packets with ECT or CE that a host has received."""

    def count() -> int:
        lines = Path("/proc/thread-self/net/netstat").read_text().splitlines()
        names, values = (line.split() for line in lines if line.startswith("IpExt:"))
        row = dict(zip(names, values, strict=True))
        six = dict(map(str.split, Path("/proc/thread-self/net/snmp6").read_text().splitlines()))
        kinds = ("ECT0Pkts", "ECT1Pkts", "CEPkts")
        return sum(int(row[f"In{kind}"]) + int(six[f"Ip6In{kind}"]) for kind in kinds)

    return netns.inside(stage.fabric.namespace(stage.host(host).name), count)


def test_it_is_reno(stage: Stage, progs: Path) -> None:
    with ecn(stage, 1, 0), recording(stage, progs, JOB, hosts=1) as recorder:
        sender, receiver = stage.pair()
        stage.dial(sender, receiver, flows=FLOWS)
        trace = recorder.until(
            lambda t: len(t.of("ssthresh")) > 2,
            lambda: sender.ask("send", sizes=[4 * BYTES], gaps_ms=[0]),
        )
        delivered(sender, receiver)
    assert not any(r["ecn_flags"] & ECN_OK for r in trace.of("avoid"))
    assert trace.differences() == []


@pytest.mark.parametrize("v6", [False, True], ids=["v4", "v6"])
@pytest.mark.parametrize("opener_sends", [True, False])
def test_packets_do_not_ask_for_marks(stage: Stage, opener_sends: bool, v6: bool) -> None:
    """Who does not heed marks must not claim to: a switch would mark instead of dropping."""
    with ecn(stage, 1, 0), mltcp(Variant.DCTCP, Variant.RENO) as kernel:
        follow(kernel, stage, JOB)
        sender, receiver = stage.pair()
        if opener_sends:
            stage.dial(sender, receiver, flows=FLOWS, v6=v6)
        else:
            stage.dial(receiver, sender, to=0, v6=v6)
            receiver.ask("turn_round", accepted=False)
            sender.ask("turn_round", accepted=True)
        # The SYN has asked, as it must; now the answer is known.
        before = capable(stage, 1)
        sender.ask("send", sizes=[BYTES], gaps_ms=[0])
        assert set(sender.ask("controls")) == {kernel.ca_names["reno"]}
        delivered(sender, receiver)
        assert capable(stage, 1) == before
        stage.clear()


def test_without_our_reno_it_is_the_kernels(stage: Stage) -> None:
    with ecn(stage, 1, 0), mltcp(Variant.DCTCP) as kernel:
        follow(kernel, stage, JOB)
        sender, receiver = stage.pair()
        stage.dial(sender, receiver, flows=FLOWS)
        assert set(sender.ask("controls")) == {"reno"}
        before = capable(stage, 1)
        sender.ask("send", sizes=[BYTES], gaps_ms=[0])
        delivered(sender, receiver)
        assert capable(stage, 1) == before
        stage.clear()


@pytest.mark.parametrize("agreed", [False, True])
def test_switched_while_connected(stage: Stage, agreed: bool) -> None:
    with ecn(stage, 0, 1 if agreed else 2), mltcp(Variant.DCTCP, Variant.RENO) as kernel:
        sender, receiver = stage.pair()
        stage.dial(sender, receiver, flows=FLOWS)
        follow(kernel, stage, JOB)
        kernel.set_cgroup_ids({stage.group(0).stat().st_ino: 1})
        before = capable(stage, 1)
        assert kernel.switch_sockets([stage.namespace(0)]).switched == FLOWS
        sender.ask("send", sizes=[BYTES], gaps_ms=[0])
        expected = kernel.ca_names["dctcp" if agreed else "reno"]
        assert set(sender.ask("controls")) == {expected}
        delivered(sender, receiver)
        assert (capable(stage, 1) > before) is agreed
        stage.clear()
