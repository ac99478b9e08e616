"""Nanoseconds per ACK of each congestion control, and throughput, beside the kernel's cubic.

The kernel times BPF programs (BPF_ENABLE_STATS): time in all hooks of a control over the
segments that its senders received.  The kernel's own cubic is no BPF program; its time is the
difference between a control whose hooks call it and one whose hooks do nothing.
docs/benchmarks.md lists what that does not include.  What it takes from flows that only the
processors limit is in ack_throughput.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from typing import cast

from benchmarks import ack_load, ack_throughput, options
from benchmarks.cases import identity_of
from benchmarks.context import Context
from benchmarks.cost import Cost, without
from benchmarks.harness import Case, Measured, run_cases
from benchmarks.record import Cell, Column, Record, spread
from hostcc.bpf.loader.objects import object_path
from hostcc.lab import override, scenario
from hostcc.lab.dumbbell import Dumbbell
from hostcc.lab.scenario import Scenario
from hostcc.mltcp.params import Variant

NULL, PASS, KERNEL = "nothing, in BPF", "cubic, called from BPF", "kernel's cubic (difference)"
GATED = "gated"
CONTROLS = ("null", "pass", *(str(variant) for variant in Variant), GATED)
ECN_PACKETS = 20
"""Marking threshold; only DCTCP asks for marks."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Scenario, flows, controls, iterations."""
    options.add_one_scenario(parser)
    parser.add_argument(
        "--controls",
        type=options.names("--controls", CONTROLS),
        default=CONTROLS,
        metavar="NAME,NAME,...",
        help=f"(default: {','.join(CONTROLS)}); null, pass and gated: see docs/benchmarks.md",
    )
    parser.add_argument(
        "--iterations",
        type=options.whole("--iterations", 1, options.MAX_ITERATIONS),
        default=40,
        metavar="N",
        help="iterations of every job (default: %(default)s)",
    )
    parser.add_argument(
        "--rounds",
        type=options.whole("--rounds", 0, options.MAX_RUNS),
        default=30,
        metavar="N",
        help="of throughput without a shaped link, once for all runs (default: %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        type=options.fraction("--seconds", 0.05, 60),
        default=0.5,
        metavar="S",
        help="length of each of its measurements (default: %(default)s)",
    )


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    wanted = override.overridden(
        scenario.load(scenario.find(args.scenario)),
        {"flows": args.flows, "iterations": args.iterations, "alone": 0, "ecn": ECN_PACKETS},
    )
    controls = tuple(dict.fromkeys(("null", *args.controls)))
    measured = _measure_all(wanted, controls, context)
    unshaped = _measure_unshaped(args.rounds, args.seconds, context)
    rates = {flows: found[0] for flows, found in unshaped.results.items()}
    return Record(
        benchmark="ack-cost",
        title=f"nanoseconds per ACK: {args.scenario}, {args.flows} flows a job",
        parameters={
            "scenario": args.scenario,
            "flows": args.flows,
            "controls": list(controls),
            "iterations": args.iterations,
            "rounds": args.rounds,
            "seconds": args.seconds,
            "runs": context.runs,
        },
        columns=[
            Column("control", "congestion control"),
            Column("acks", "ACKs", digits=0),
            Column("calls", "calls / ACK", digits=2),
            Column("ns", "ns / ACK", digits=0),
            Column("above", "above doing nothing", digits=0),
            *ack_throughput.columns(),
        ],
        rows=[*rows(measured.results), *ack_throughput.rows(rates)],
        goals=ack_throughput.judge(rates),
        notes=[
            "ns / ACK contains what the measuring adds to each call; above doing nothing does not",
            "unshaped: median (least..greatest) over the rounds; only the processor limits it",
        ],
        failures=[*measured.failures, *unshaped.failures],
    )


def rows(costs: Mapping[str, Sequence[Cost]]) -> list[dict[str, Cell]]:
    """A row per control, and one for the kernel's cubic."""
    empty = costs.get("null", ())
    made: list[dict[str, Cell]] = []
    names = {"null": NULL, "pass": PASS, GATED: "hostcc: hostcc, gates armed"}
    for control, found in costs.items():
        row: dict[str, Cell] = {
            "control": names.get(control, f"hostcc: {control}"),
            "acks": spread([cost.acks for cost in found]),
            "calls": spread([cost.calls_per_ack for cost in found]),
            "ns": spread([cost.ns_per_ack for cost in found]),
        }
        above = [without(cost, base) for cost, base in zip(found, empty, strict=False)]
        if above and control != "null":
            row["above"] = spread(cast("list[float | None]", above))
        made.append(row)
        if control == "pass" and above:
            made.append({"control": KERNEL, "above": row["above"]})
    return made


def _measure_all(
    wanted: Scenario, controls: Sequence[str], context: Context
) -> Measured[str, Cost]:
    """Every control in every run, the runs interleaved."""
    what = {"scenario": wanted, "source": ack_load.SOURCE.read_text()}
    cases = [
        Case(
            control,
            f"cases/{control}-{number}",
            f"{control}, run {number}",
            lambda: identity_of(what, programs=True),
            partial(measure, wanted, control),
        )
        for number in range(1, context.runs + 1)
        for control in controls
    ]
    return run_cases(context, Cost, cases, lambda cost: f"{cost.ns_per_ack:.0f} ns / ACK")


def _measure_unshaped(
    rounds: int, seconds: float, context: Context
) -> Measured[int, ack_throughput.Rates]:
    """Throughput by number of flows, in rounds of all controls."""
    meter = object_path("meter").read_bytes().hex()
    what = {"rounds": rounds, "seconds": seconds, "meter": meter}
    cases = [
        Case(
            flows,
            f"cases/unshaped-{flows}",
            f"throughput, flows: {flows}",
            lambda: identity_of(what, programs=True),
            partial(ack_throughput.measure, flows, rounds, seconds),
        )
        for flows in ack_throughput.FLOWS
        if rounds
    ]
    return run_cases(context, ack_throughput.Rates, cases)


def measure(wanted: Scenario, control: str) -> Cost:
    """One control in one run; raises LabError or BpfError."""
    with Dumbbell(wanted.fabric, ack_load.hosts(wanted)) as fabric:
        if control in ("null", "pass"):
            name = ack_load.NULL if control == "null" else ack_load.PASS
            with ack_load.trivial(name) as (variant, counts):
                return ack_load.measure(fabric, wanted, variant, counts, lambda _: None)
        armed = control == GATED
        wished = Variant.HOSTCC if armed else Variant(control)
        with ack_load.managed(wished, fabric, wanted, armed=armed) as counts:
            return ack_load.measure(fabric, wanted, ack_load.unmanaged(), counts, lambda _: None)
