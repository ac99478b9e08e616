"""A job that runs twice: how soon is it known, published, planned, and on its planned path?

Four real agents on a leaf-spine fabric gossip, plan and steer.  Another job runs all the time.  A
job begins on the spine that this one is on, runs until it is measured and ends.  Several times its
agent is restarted, and the job runs again, on the spine that the other one is on.  Details:
docs/internals/planning.md.
"""

from __future__ import annotations

import argparse
import base64
import json
import subprocess
import time
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from statistics import median
from typing import Annotated, Any

import msgspec

from benchmarks import goals, options
from benchmarks.churn_stage import PATIENCE_S, PORT, ChurnStage
from benchmarks.context import Context
from benchmarks.harness import repeated
from benchmarks.headings import Heading, cells, columns
from benchmarks.record import Record, Verdict
from hostcc.daemon.profiling import memory_file
from hostcc.errors import HostccError
from hostcc.lab import agents, netns
from hostcc.lab.errors import LabError
from hostcc.paths.packets import TCP, Target
from hostcc.paths.probed_tables import links_of, path_id
from hostcc.paths.prober import search

LOAD = "benchmarks.recurring_load"
JOB, STANDING = "recurring", "another"
SENDERS = {JOB: "h2", STANDING: "h1"}
"""Job -> the host that sends, on the first leaf: of two flows that meet, the later one moves."""
RECEIVERS = {JOB: "h4", STANDING: "h3"}
"""On the second leaf."""
BYTES = 2 << 20
"""Of an iteration."""
LOOK_S = 0.05
"""Between two looks at the agents: what the figures are known to."""
TICK_S = 0.5
"""Between two readings of the meter."""
MEASURED = 0.7
"""Confidence from which a job counts as measured."""
NEAR = 0.15
"""Relative error of a period that is right: that much is no other measurement for a plan."""
LONGEST_S = 240.0
"""That a job may take to be measured."""
PARTS = "memory", "traffic", "steering"
"""That run before the job may."""
SOURCES = range(20_000, 20_200)
"""Source ports that jobs may have; no ephemeral ones, which agents' connections may have."""


class Life(msgspec.Struct, frozen=True):
    """One run of the job; seconds are from its first byte."""

    published_s: float
    """Until the view that this host holds had a record of it."""
    known_s: float
    """Until it was published by its own iterations, measured or remembered."""
    flows_s: float
    """Until that view had its flow, and the path that this is on."""
    plan_s: float
    """Until the plan in force on this host gave the flow a path."""
    path_s: float
    """Until this job and the other one were on their planned paths, over different spines."""
    plans: int
    """Plans that came into force until then."""
    remembered: bool


class Figures(msgspec.Struct, frozen=True):
    """The first run of the job, and the later ones: medians."""

    first_published_s: Annotated[float, Heading("first: record after s", 2)]
    first_known_s: Annotated[float, Heading("iterations known after s", 2)]
    first_flows_s: Annotated[float, Heading("flow published after s", 2)]
    first_plan_s: Annotated[float, Heading("plan in force after s", 2)]
    first_path_s: Annotated[float, Heading("on its path after s", 2)]
    first_plans: Annotated[float, Heading("plans until then", 0)]
    again_published_s: Annotated[float, Heading("again: record after s", 2)]
    again_known_s: Annotated[float, Heading("iterations known after s", 2)]
    again_flows_s: Annotated[float, Heading("flow published after s", 2)]
    again_plan_s: Annotated[float, Heading("plan in force after s", 2)]
    again_path_s: Annotated[float, Heading("on its path after s", 2)]
    again_plans: Annotated[float, Heading("plans until then", 0)]
    ratio: Annotated[float, Heading("known, again over first", 3)]
    remembered: bool


def add_options(parser: argparse.ArgumentParser) -> None:
    """The job, and how often it runs."""
    parser.add_argument(
        "--period", type=options.fraction("--period", 0.5, 20), default=2.0, metavar="S",
        help="length of an iteration of the job (default: %(default)g)",
    )  # fmt: skip
    parser.add_argument(
        "--again", type=options.whole("--again", 1, 50), default=5, metavar="N",
        help="how often the job runs again (default: %(default)d)",
    )  # fmt: skip


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    parameters = {"period_s": args.period, "bytes": BYTES, "again": args.again}
    runs, failures = repeated(
        context, Figures, "recurring", parameters,
        lambda _: measure(args.period, args.again, context),
    )  # fmt: skip
    return Record(
        benchmark="recurring",
        title="a job that runs again and again, with a restart of its agent between",
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
    on_path = [one.again_path_s for one in runs]
    recalled = [float(one.remembered) for one in runs]
    words = "known again within an iteration and a tick"
    return [
        goals.verdict(JOB, words, known, at_most=period_s + TICK_S),
        goals.verdict(JOB, "on its path again within an iteration", on_path, at_most=period_s),
        goals.verdict(JOB, "recognised", recalled, at_least=1),
    ]


def figures(first: Life, again: Sequence[Life]) -> Figures:
    """Put the first run of a job beside the others."""
    lags = "published_s", "known_s", "flows_s", "plan_s", "path_s", "plans"
    medians = {f"again_{lag}": median(getattr(life, lag) for life in again) for lag in lags}
    return Figures(
        **{f"first_{lag}": getattr(first, lag) for lag in lags},
        **medians,
        ratio=medians["again_known_s"] / first.known_s,
        remembered=all(life.remembered for life in again) and not first.remembered,
    )


def measure(period_s: float, times: int, context: Context) -> Figures:
    """One run; raises HostccError or OSError."""
    with ChurnStage() as stage:
        name = SENDERS[JOB]
        for to in RECEIVERS.values():
            stage.receive(to)
        spines = {job: _spines(stage, job) for job in SENDERS}
        context.tell("first", 0, 1 + times)
        standing, _ = _load(stage, STANDING, period_s, next(iter(spines[STANDING].values()))[0])
        try:
            _until(stage, "the other job's path", lambda: _spine(stage, STANDING, spines))
            first, again = _live(stage, period_s, spines, 0), []
            for number in range(1, 1 + times):
                gone = lambda: not stage.ask(name, "status")["jobs"]  # noqa: E731
                _until(stage, "the job to be forgotten", gone)
                agents.stop([stage.agents[name]])
                agents.restart(stage.lab, [stage.agents[name]])
                _until(stage, "the agent's parts", lambda: _runs(stage, name))
                context.tell("again", number, 1 + times)
                again.append(_live(stage, period_s, spines, number))
            return figures(first, again)
        finally:
            _end(standing)


Spines = Mapping[str, Mapping[str, Sequence[int]]]
"""Job -> path of its host to its receiver, in the order of the spines -> source ports."""


def _spines(stage: ChurnStage, job: str) -> dict[str, Sequence[int]]:
    src, dst = (stage.lab.named(of[job]).address for of in (SENDERS, RECEIVERS))
    target = Target(src, dst, TCP, PORT)
    found = netns.inside(stage.lab.namespace(SENDERS[job]), lambda: search(target, SOURCES))
    by_spine = sorted(found.paths.items(), key=lambda item: item[0][1])
    return {path_id(links_of(src, dst, hops)): ports for hops, ports in by_spine}


def _spine(stage: ChurnStage, job: str, spines: Spines) -> int:
    """The spine that a job's flow is on, and is to be on, from 1; 0: there is none."""
    rows = stage.ask(SENDERS[job], "flows", limit=1000)["flows"]
    known = [*spines[job]]
    for row in rows:
        if row["job"] == job and row["path_is"] == "wanted" and row["path"] in known:
            return 1 + known.index(row["path"])
    return 0


def _load(
    stage: ChurnStage, job: str, period_s: float, source: int
) -> tuple[subprocess.Popen[bytes], float]:
    """A job that sends, and when its first byte left."""
    control, to = stage.agents[SENDERS[job]].socket, stage.lab.named(RECEIVERS[job])
    load = stage.spawn(
        SENDERS[job], LOAD, control, to.address, PORT, job, period_s, BYTES, source
    )  # fmt: skip
    assert load.stdout is not None
    line = load.stdout.readline()
    if not line:
        raise LabError(f"the job did not begin: {stage.log()}")
    return load, float(line)


def _end(load: subprocess.Popen[bytes]) -> None:
    load.kill()
    load.communicate()


def _live(stage: ChurnStage, period_s: float, spines: Spines, number: int) -> Life:
    """Run the job, which begins on the spine that the other one is on: the first time until it is
    measured, then until it is on its path."""
    before = stage.ask(SENDERS[JOB], "plan")["state"]["number"]
    ports = [*spines[JOB].values()][_spine(stage, STANDING, spines) - 1]
    load, first_s = _load(stage, JOB, period_s, ports[number])
    try:
        life = _watched(stage, before, first_s, period_s, spines)
        if not number:
            _until(stage, "what was measured to be on disk", lambda: _is_kept(stage))
        return life
    finally:
        _end(load)


def _watched(
    stage: ChurnStage, before: int, first_s: float, period_s: float, spines: Spines
) -> Life:
    """Look at what is to come next only: a look is to take little time."""
    name, at, remembered, flows = SENDERS[JOB], dict[str, float](), False, set[str]()
    while True:
        reached = dict.fromkeys(at, True)
        if "flows" not in at:
            view = _view(stage, name)
            flows = {x["id"] for x in view.get("flows", ()) if x["job"] == JOB and x["path"]}
            there = any(one["job"] == JOB for one in view.get("jobs", ()))
            reached |= {"published": there, "flows": bool(flows)}
        elif "plan" not in at:
            planned = {one["flow"] for one in stage.ask(name, "plan")["flows"]}
            reached["plan"] = bool(planned & flows)
        elif "path" not in at:
            reached["path"] = _are_apart(stage, spines)
        if "published" in at and "known" not in at:
            row = _detail(stage, name)
            profile = row.get("profile") or {}
            remembered = _is_near(row.get("remembered") or {}, period_s)
            measured = _is_near(profile, period_s) and profile["confidence"] >= MEASURED
            reached["known"] = remembered or measured
        now_s = time.monotonic() - first_s
        at = {**{what: now_s for what, is_so in reached.items() if is_so}, **at}
        if {"path", "known"} <= at.keys():
            number = stage.ask(name, "plan")["state"]["number"]
            lags = {f"{what}_s": lag_s for what, lag_s in at.items()}
            return Life(**lags, plans=number - before, remembered=remembered)
        if now_s > LONGEST_S:
            raise LabError(f"only {sorted(at)} in {LONGEST_S:g} s: {stage.log()}")
        time.sleep(TICK_S if "path" in at else LOOK_S)


def _are_apart(stage: ChurnStage, spines: Spines) -> bool:
    mine = _spine(stage, JOB, spines)
    return bool(mine) and _spine(stage, STANDING, spines) not in (0, mine)


def _view(stage: ChurnStage, name: str) -> dict[str, Any]:
    """The view that a host holds; empty: none."""
    with suppress(HostccError):
        document = base64.b64decode(stage.ask(name, "view")["document"])
        view: dict[str, Any] = json.loads(zlib.decompress(document))
        return view
    return {}


def _is_near(figures: dict[str, Any], period_s: float) -> bool:
    return abs(float(figures.get("period_s") or 0.0) / period_s - 1) <= NEAR


def _detail(stage: ChurnStage, name: str) -> dict[str, Any]:
    rows = stage.ask(name, "jobs", detail=True)["jobs"]
    return next((row for row in rows if row["name"] == JOB), {})


def _is_kept(stage: ChurnStage) -> bool:
    file = stage.lab.run_dir / SENDERS[JOB] / memory_file.NAME
    return file.exists() and JOB in file.read_text()


def _runs(stage: ChurnStage, name: str) -> bool:
    with suppress(HostccError):
        status = stage.ask(name, "status")
        parts = {part["name"]: part for part in status["parts"]}
        member = status["gossip"] or {}
        run = all(parts[part]["state"] == "running" for part in PARTS)
        return run and bool(parts["steering"].get("devices") and member.get("agreed"))
    return False


def _until(stage: ChurnStage, what: str, true: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > deadline:
            raise LabError(f"waited in vain for {what}: {stage.log()}")
        time.sleep(LOOK_S)
