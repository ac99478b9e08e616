"""Traffic for ack-cost: jobs in a lab under one congestion control, its programs counted."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.cost import Cost, difference
from hostcc.bpf.loader import stats
from hostcc.bpf.loader.object import BpfObject
from hostcc.lab import netns, phase, scenario_hosts
from hostcc.lab.compile import bpf_object
from hostcc.lab.dumbbell import Dumbbell
from hostcc.lab.scenario import Scenario
from hostcc.lab.variants import FALL_BACK, Variant, by_socket
from hostcc.measure.meter_kernel import KernelMeter
from hostcc.mltcp.kernel import MltcpKernel
from hostcc.mltcp.params import JobParams
from hostcc.mltcp.params import Variant as Control

NULL, PASS = "bench_null", "bench_pass"
"""struct_ops of trivial.bpf.c; their programs' names begin so."""
SOURCE = Path(__file__).parent / "progs" / "trivial.bpf.c"
STALE_S = 600.0
"""Longer than any run: the heartbeat is written once."""
Counts = Callable[[], Mapping[str, tuple[int, int]]]
"""Reads (calls, ns) of the counted programs by name."""


@contextmanager
def trivial(name: str) -> Iterator[tuple[Variant, Counts]]:
    """One of trivial.bpf.c's controls, registered while the block runs; set per socket."""
    registered = f"{name}_{secrets.token_hex(2)}"
    with BpfObject.open(bpf_object(SOURCE), {name: registered}) as loaded:
        loaded.load()
        link = loaded.attach_struct_ops(name)
        try:
            yield by_socket(registered), lambda: _rows(loaded.program_stats(), name)
        finally:
            link.close()


@contextmanager
def managed(
    control: Control, fabric: Dumbbell, scenario: Scenario, *, armed: bool = False
) -> Iterator[Counts]:
    """One of hostcc's controls on the jobs' hosts, as an agent would put it there; `armed`: with
    gates, which are open."""
    with ExitStack() as stack:
        kernel = MltcpKernel(secrets.token_hex(2), [control], STALE_S)
        stack.callback(kernel.close)
        # Jobs are steered only where it is known that they send in one direction.
        meter = KernelMeter(shared=kernel.shared_maps)
        stack.callback(meter.close)
        slots = {job.name: slot for slot, job in enumerate(scenario.job, start=1)}
        for name, slot in slots.items():
            kernel.set_job(slot, JobParams(name, variant=control))
        # One link follows one cgroup, so the receivers have slots of their own.
        for host in fabric.hosts:
            slot = slots[host.owner]
            if host.rank:
                slot += len(slots)
                kernel.set_job(slot, JobParams(f"{host.owner}-{host.rank}", variant=control))
            kernel.attach_cgroup(slot, fabric.cgroup_of(host))
            meter.attach_cgroup(slot, fabric.cgroup_of(host))
            kernel.set_gate(slot, armed=armed)
        yield lambda: _rows(kernel.program_stats(), "hcc_")


def measure(
    fabric: Dumbbell, scenario: Scenario, variant: Variant, counts: Counts, tell: phase.Progress
) -> Cost:
    """Run the jobs and count; raises LabError."""
    senders = [fabric.namespace(host.name) for host in fabric.hosts if host.rank == 0]
    with stats.enable():
        before, received = counts(), sum(map(segments_received, senders))
        phase.run(
            fabric,
            phase.PhasePlan(scenario, scenario.job, variant, scenario.iterations),
            tell,
        )
        after, acks = counts(), sum(map(segments_received, senders)) - received
    return Cost(max(1, acks), difference(before, after))


def hosts(scenario: Scenario) -> tuple[scenario_hosts.Host, ...]:
    """The lab's hosts."""
    return scenario_hosts.hosts_of(scenario)


def unmanaged() -> Variant:
    """The hosts' default control, without agents: for sockets that `managed` takes over."""
    return Variant(FALL_BACK, default_control=FALL_BACK)


def segments_received(namespace: str) -> int:
    """TCP segments that a namespace has received, from its /proc/net/snmp."""
    text = netns.inside(namespace, lambda: Path("/proc/thread-self/net/snmp").read_text())
    names, values = (line.split() for line in text.splitlines() if line.startswith("Tcp:"))
    return int(values[names.index("InSegs")])


def _rows(rows: object, prefix: str) -> dict[str, tuple[int, int]]:
    return {
        str(row["name"]): (int(row["run_cnt"]), int(row["run_time_ns"]))
        for row in rows  # type: ignore[attr-defined]
        if str(row["name"]).startswith(prefix)
    }
