"""Throughput of flows that only the processor limits, by congestion control, for ack-cost.

One process sends over all connections as fast as they take it, from one network namespace to
another over veth, and another one receives, both on one processor.  Controls take turns, each on
connections of its own, so that a slow change of the machine affects all of a round alike.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import cast

from benchmarks.ack_load import STALE_S
from benchmarks.goals import verdict
from benchmarks.meter_agent import READ_S
from benchmarks.meter_stage import Stage
from benchmarks.record import Cell, Column, Verdict, spread
from hostcc.lab.errors import LabError
from hostcc.lab.variants import FALL_BACK
from hostcc.measure.meter_kernel import KernelMeter
from hostcc.mltcp.kernel import MltcpKernel
from hostcc.mltcp.params import JobParams, Variant

CUBIC, HOSTCC, GATED, METERED = "cubic", "hostcc", "gated", "metered"
WORDS = {
    CUBIC: "unshaped: the kernel's cubic",
    HOSTCC: "unshaped: hostcc",
    GATED: "unshaped: hostcc, gates armed",
    METERED: "unshaped: hostcc, gates armed, byte meter",
}
"""Each has what the one before it has, and cubic nothing of hostcc."""
FLOWS = (1, 8)
SLOT = 1
"""Of the job."""
WARM_S = 0.3
"""Until windows and buffers have grown."""
LEAST = 0.98
"""Of the kernel's cubic, median over the rounds."""
Rates = dict[str, list[float]]
"""Control -> bits per second of payload, by round."""


def measure(flows: int, rounds: int, seconds: float) -> Rates:
    """So many connections under each control in turn; raises LabError, BpfError or OSError."""
    found: Rates = {name: [] for name in WORDS}
    with Stage(1) as stage, ExitStack() as stack:
        kernel = MltcpKernel(secrets.token_hex(2), [Variant.HOSTCC], STALE_S)
        stack.callback(kernel.close)
        meter = KernelMeter(shared=kernel.shared_maps)
        stack.callback(meter.close)
        stack.enter_context(_reading(meter))
        for number in range(rounds):
            # There and back, so that a drift of the machine cancels over two rounds.
            for name in WORDS if number % 2 else reversed(WORDS):
                expected = _attach(name, stage.job, kernel, meter)
                with stage.streams(flows) as controls:
                    if set(controls) != {expected}:
                        raise LabError(f"expected flows on {expected}, got {', '.join(controls)}")
                    stage.throughput(WARM_S)
                    found[name].append(stage.throughput(seconds))
    return found


def _attach(name: str, group: Path, kernel: MltcpKernel, meter: KernelMeter) -> str:
    """Have what this variant has on the job's new connections, and nothing else; their control."""
    meter.detach_cgroup(SLOT)
    kernel.detach_cgroup(SLOT)
    kernel.set_job(SLOT, None)  # what was learned of the last turn's job, too
    if name == CUBIC:
        return FALL_BACK
    kernel.set_job(SLOT, JobParams("job", variant=Variant.HOSTCC))
    kernel.attach_cgroup(SLOT, group)
    kernel.set_gate(SLOT, armed=name in (GATED, METERED))
    if name == METERED:
        meter.attach_cgroup(SLOT, group)
    return kernel.ca_names[Variant.HOSTCC]


@contextmanager
def _reading(meter: KernelMeter) -> Iterator[None]:
    """Read as often as an agent, so that nothing is left uncounted."""
    done = threading.Event()

    def read() -> None:
        while not done.wait(READ_S):
            meter.read()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def ratios(rates: Rates, name: str) -> list[float | None]:
    """A control's throughput over cubic's in the same round."""
    return [own / usual for own, usual in zip(rates[name], rates[CUBIC], strict=True)]


def columns() -> list[Column]:
    """Of the table: throughput by number of flows, and what part of cubic's it is."""
    made = []
    for flows in FLOWS:
        made.append(Column(f"bps_{flows}", f"Gbit/s, flows: {flows}", 2, 1e-9))
        made.append(Column(f"of_cubic_{flows}", "of cubic's"))
    return made


def rows(found: Mapping[int, Rates]) -> list[dict[str, Cell]]:
    """One of each control; `found`: by number of flows.  Spreads are over the rounds."""
    made: dict[str, dict[str, Cell]] = {name: {"control": words} for name, words in WORDS.items()}
    for flows, rates in found.items():
        for name, row in made.items():
            row[f"bps_{flows}"] = spread(cast("list[float | None]", rates[name]))
            row[f"of_cubic_{flows}"] = spread(ratios(rates, name))
    return list(made.values()) if found else []


def judge(found: Mapping[int, Rates]) -> list[Verdict]:
    """hostcc's flows, however much of it is loaded, against cubic's."""
    goal = f"throughput >= {LEAST:g} of cubic's"
    return [
        verdict(f"{WORDS[name]}, flows: {flows}", goal, ratios(rates, name), at_least=LEAST)
        for flows, rates in found.items()
        for name in WORDS
        if name != CUBIC
    ]
