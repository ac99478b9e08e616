"""Where kernel tests play: namespaces with a bottleneck, jobs' cgroups, peers, the adapter."""

from __future__ import annotations

import functools
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from hostcc.bpf.loader.object import BpfObject
from hostcc.bpf.loader.objects import object_path
from hostcc.lab import netns
from hostcc.lab.dumbbell import Dumbbell
from hostcc.lab.scenario import FabricSpec, JobSpec, Scenario
from hostcc.lab.scenario_hosts import Host, hosts_of
from hostcc.mltcp.kernel import MltcpKernel
from hostcc.mltcp.kernel_names import STRUCT_OPS
from hostcc.mltcp.params import JobParams, Variant
from tests import patience
from tests.commanded import CommandedProcess

PEER = Path(__file__).with_name("peer.py")
NEVER_STALE_S = 3600.0
SLOT = 1
Received = dict[str, tuple[int, str]]


@functools.cache
def enums() -> dict[str, int]:
    """Constants of the product's C headers."""
    with BpfObject.open(object_path("mltcp")) as obj:
        return dict(obj.enums)


until = patience.until


def attempts(scene: Callable[[], None], times: int = 20) -> None:
    """Play a scene whose pauses a busy machine may spoil; it has to come off once."""
    for left in reversed(range(times)):
        try:
            scene()
        except AssertionError:
            if not left:
                raise
        else:
            return


def stretched(scene: Callable[[float], None], times: int = 10) -> None:
    """Play a scene until it comes off once, each time with all pauses twice as long as before.

    `scene` takes the factor.  What a busy machine adds to silences does not grow with them; but a
    long scene is more likely to meet what stands still, so the factors begin again.
    """
    factors = (2.0 ** (number % 5) for number in range(times))
    attempts(lambda: scene(next(factors)), times)


class Peer(CommandedProcess):
    """A process of a host, in a cgroup; methods are those of peer.Peer."""

    def __init__(self, namespace: str, cgroup: Path) -> None:
        super().__init__(PEER, namespace, cgroup)


class Stage:
    """A fabric with two hosts a job (`jobs` of them); peers and groups go with it."""

    def __init__(self, fabric: FabricSpec, jobs: int = 1) -> None:
        specs = tuple(JobSpec(name=f"job{n}", comm_ms=1) for n in range(jobs))
        self.fabric = Dumbbell(fabric, hosts_of(Scenario(job=specs)))
        self._peers: list[Peer] = []

    def __enter__(self) -> Stage:
        self.fabric.__enter__()
        self.fabric.set_congestion_control("cubic")
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
        self.fabric.close()

    def host(self, number: int) -> Host:
        return self.fabric.hosts[number]

    def namespace(self, number: int) -> Path:
        return netns.NAMESPACE_DIRECTORY / self.fabric.namespace(self.host(number).name)

    def sysctl(self, values: Mapping[str, str]) -> None:
        for host in self.fabric.hosts:
            netns.set_sysctls(self.fabric.namespace(host.name), values)

    def group(self, number: int, below: str = "job") -> Path:
        """A cgroup of a host, made when it is not there."""
        path = self.fabric.cgroup_of(self.host(number)) / below
        path.mkdir(parents=True, exist_ok=True)
        return path

    def peer(self, number: int, below: str = "job") -> Peer:
        """A new process on a host."""
        made = Peer(self.fabric.namespace(self.host(number).name), self.group(number, below))
        self._peers.append(made)
        return made

    def clear(self) -> None:
        """End all peers, and with them their connections."""
        for peer in self._peers:
            peer.kill()
        self._peers = []

    def pair(self, first: int = 0, below: str = "job") -> tuple[Peer, Peer]:
        """A sender on host `first` and a receiver on the next."""
        return self.peer(first, below), self.peer(first + 1, below)

    def dial(
        self, sender: Peer, receiver: Peer, to: int = 1, flows: int = 1, *, v6: bool = False,
        control: str = "", **more: Any,
    ) -> list[int]:  # fmt: skip
        """Connect them; returns the sender's ports."""
        address = self.host(to).address6 if v6 else self.host(to).address
        port = receiver.ask("listen", address=address, control=control)
        ports: list[int] = sender.ask(
            "connect", address=address, port=port, flows=flows, control=control, **more
        )
        return ports


def delivered(sender: Peer, receiver: Peer) -> int:
    """Close; every byte must have arrived unchanged.  Returns how many."""
    sent: Received = sender.ask("close")
    got: Received = receiver.ask("results", count=len(sent))
    assert got == sent
    return sum(count for count, _ in sent.values())


@contextmanager
def mltcp(*variants: Variant, stale_s: float = NEVER_STALE_S) -> Iterator[MltcpKernel]:
    """The adapter, with a tag of its own."""
    made = MltcpKernel(secrets.token_hex(2), variants or list(Variant), stale_s)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def mltcp_from(
    path: Path, struct_ops: Mapping[Variant, str], stale_s: float = NEVER_STALE_S
) -> Iterator[tuple[MltcpKernel, BpfObject]]:
    """The adapter on a test's object, which holds the product's programs and more."""
    found: list[BpfObject] = []
    original = BpfObject.open

    def open_instead(given: Path, names: Mapping[str, str] | None = None) -> BpfObject:
        if given.name != "mltcp.bpf.o":
            return original(given, names)
        obj = original(path, names)
        for variable in obj.struct_ops().keys() - (names or {}).keys():
            obj.set_autocreate(variable, False)
        found.append(obj)
        return obj

    known = {**STRUCT_OPS, **struct_ops}
    with (
        patch("hostcc.mltcp.kernel.STRUCT_OPS", known),
        patch.object(BpfObject, "open", open_instead),
        mltcp(*struct_ops, stale_s=stale_s) as made,
    ):
        yield made, found[0]


def follow(
    kernel: MltcpKernel, stage: Stage, params: JobParams, slot: int = SLOT, host: int = 0
) -> None:
    """Make a host's `job` group a job."""
    kernel.set_job(slot, params)
    kernel.attach_cgroup(slot, stage.group(host))


def state(kernel: MltcpKernel, slot: int = SLOT) -> np.void:
    row: np.void = kernel.job_states()[slot]
    return row


@contextmanager
def slow_link(stage: Stage, rate: str = "300kbit") -> Iterator[None]:
    """Slow the bottleneck: a few packets take longer than a time-out, but arrive."""
    left = stage.fabric.namespace("left")
    usual = f"{round(stage.fabric.spec.rate_mbit * 1e6)}bit"
    change = "class change dev mid parent 1: classid 1:1 htb rate {0} ceil {0} {1}"
    netns.batch("tc", [change.format(rate, "burst 1600 cburst 1600 quantum 1514")], left)
    yield
    netns.batch("tc", [change.format(usual, "burst 4000 cburst 4000 quantum 1514")], left)


def stall_link(stage: Stage, seconds: float) -> None:
    """Slow the bottleneck for a while: retransmission timers fire although nothing is lost."""
    with slow_link(stage, "1mbit"):
        time.sleep(seconds)
