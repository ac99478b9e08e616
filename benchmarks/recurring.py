"""A job that runs twice: how soon is it published, and how soon by what it is like?

Two real agents on a leaf-spine fabric gossip, plan and steer.  A job runs until it is measured and
ends, its agent is restarted, and the job runs again.  Details: docs/planning.md.
"""

from __future__ import annotations

import argparse
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

import msgspec

from benchmarks import goals, options
from benchmarks.churn_stage import PATIENCE_S, PORT, ChurnStage
from benchmarks.context import Context
from benchmarks.harness import repeated
from benchmarks.headings import Heading, cells, columns
from benchmarks.record import Record, Verdict
from hostcc.errors import HostccError
from hostcc.lab import agents
from hostcc.lab.errors import LabError

LOAD = "benchmarks.recurring_load"
JOB = "recurring"
BYTES = 2 << 20
"""Of an iteration."""
LOOK_S = 0.05
"""Between two looks at the agent: what the figures are known to."""
TICK_S = 0.5
"""Between two readings of the meter."""
MEASURED = 0.7
"""Confidence from which a job counts as measured."""
NEAR = 0.15
"""Relative error of a period that is right: that much is no other measurement for a plan."""
LONGEST_S = 180.0
"""That a job may take to be measured."""
LEARNED_S = 2.0
"""Until the agent has surely taken notice of what it measured."""
PARTS = "memory", "traffic", "steering"
"""That run before the job may."""


class Life(msgspec.Struct, frozen=True):
    """One run of the job; seconds are from its first byte."""

    published_s: float
    """Until this host's view had a record of it."""
    known_s: float
    """Until it was published by its own iterations, measured or remembered."""
    measured_s: float
    plans: int
    """Plans that came into force until it was measured."""
    remembered: bool


class Figures(msgspec.Struct, frozen=True):
    """Both runs of the job."""

    first_published_s: Annotated[float, Heading("first: record after s", 2)]
    first_known_s: Annotated[float, Heading("iterations known after s", 2)]
    first_plans: Annotated[int, Heading("plans until measured", 0)]
    again_published_s: Annotated[float, Heading("again: record after s", 2)]
    again_known_s: Annotated[float, Heading("iterations known after s", 2)]
    again_plans: Annotated[int, Heading("plans until measured", 0)]
    ratio: Annotated[float, Heading("known, again over first", 3)]
    remembered: bool


def add_options(parser: argparse.ArgumentParser) -> None:
    """How long an iteration is."""
    parser.add_argument(
        "--period", type=options.fraction("--period", 0.5, 20), default=2.0, metavar="S",
        help="length of an iteration of the job (default: %(default)g)",
    )  # fmt: skip


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    parameters = {"period_s": args.period, "bytes": BYTES}
    runs, failures = repeated(
        context, Figures, "recurring", parameters, lambda _: measure(args.period, context)
    )
    return Record(
        benchmark="recurring",
        title="a job that runs twice, with a restart of its agent between",
        parameters={**parameters, "runs": context.runs},
        columns=columns(Figures),
        rows=[dict(cells(runs))] if runs else [],
        goals=judge(runs, args.period) if runs else [],
        notes=["seconds are from the job's first byte; looked at 20 times a second"],
        failures=failures,
    )


def judge(runs: Sequence[Figures], period_s: float) -> list[Verdict]:
    """The second time its first iteration is enough."""
    known = [one.again_known_s for one in runs]
    recalled = [float(one.remembered) for one in runs]
    words = "known again within an iteration and a tick"
    return [
        goals.verdict(JOB, words, known, at_most=period_s + TICK_S),
        goals.verdict(JOB, "recognised", recalled, at_least=1),
    ]


def figures(first: Life, again: Life) -> Figures:
    """Put the two runs of a job side by side."""
    return Figures(
        first_published_s=first.published_s,
        first_known_s=first.known_s,
        first_plans=first.plans,
        again_published_s=again.published_s,
        again_known_s=again.known_s,
        again_plans=again.plans,
        ratio=again.known_s / first.known_s,
        remembered=again.remembered and not first.remembered,
    )


def measure(period_s: float, context: Context) -> Figures:
    """One run; raises HostccError or OSError."""
    with ChurnStage(hosts_per_leaf=1) as stage:
        name, to = stage.hosts
        stage.receive(to)
        context.tell("first", 0, 2)
        first = _live(stage, name, to, period_s)
        _until(stage, "the job to be forgotten", lambda: not stage.ask(name, "status")["jobs"])
        agents.stop([stage.agents[name]])
        agents.restart(stage.lab, [stage.agents[name]])
        _until(stage, "the agent's parts", lambda: _runs(stage, name))
        context.tell("again", 1, 2)
        return figures(first, _live(stage, name, to, period_s))


def _live(stage: ChurnStage, name: str, to: str, period_s: float) -> Life:
    """Run the job until it is measured."""
    before = stage.ask(name, "plan")["state"]
    address, control = stage.lab.named(to).address, stage.agents[name].socket
    load = stage.spawn(name, LOAD, control, address, PORT, JOB, period_s, BYTES)
    try:
        return _watched(stage, name, before, load, period_s)
    finally:
        load.kill()
        load.communicate()


def _watched(
    stage: ChurnStage, name: str, before: dict[str, Any], load: subprocess.Popen[bytes],
    period_s: float,
) -> Life:  # fmt: skip
    assert load.stdout is not None
    line = load.stdout.readline()
    if not line:
        raise LabError(f"the job did not begin: {stage.log()}")
    first_s = float(line)
    published_s = known_s = 0.0
    remembered = False
    while True:
        job = _detail(stage, name)
        plan = stage.ask(name, "plan")["state"]
        now_s = time.monotonic() - first_s
        profile = job.get("profile") or {}
        recalled = _is_near(job.get("remembered") or {}, period_s)
        measured = profile.get("confidence", 0.0) >= MEASURED and _is_near(profile, period_s)
        if plan["held"] != before["held"]:
            published_s = published_s or now_s
            if recalled or measured:
                known_s, remembered = known_s or now_s, remembered or recalled
        if measured and published_s:
            time.sleep(LEARNED_S)
            return Life(published_s, known_s, now_s, plan["number"] - before["number"], remembered)
        if now_s > LONGEST_S:
            raise LabError(f"the job was not measured in {LONGEST_S:g} s: {job}")
        time.sleep(LOOK_S)


def _is_near(figures: dict[str, Any], period_s: float) -> bool:
    return abs(float(figures.get("period_s") or 0.0) / period_s - 1) <= NEAR


def _detail(stage: ChurnStage, name: str) -> dict[str, Any]:
    rows = stage.ask(name, "jobs", detail=True)["jobs"]
    return next((row for row in rows if row["name"] == JOB), {})


def _runs(stage: ChurnStage, name: str) -> bool:
    with suppress(HostccError):
        status = stage.ask(name, "status")
        states = {part["name"]: part["state"] for part in status["parts"]}
        member = status["gossip"] or {}
        return all(states.get(part) == "running" for part in PARTS) and bool(member.get("agreed"))
    return False


def _until(stage: ChurnStage, what: str, true: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > deadline:
            raise LabError(f"waited in vain for {what}: {stage.log()}")
        time.sleep(LOOK_S)
