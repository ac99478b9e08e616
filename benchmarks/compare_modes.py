"""`hostcc compare` on live jobs, beside the same jobs run under each mode from their start.

Two jobs send over one link, each between two hosts, as in the scenario two-jobs but with computing
that varies; four agents gossip.  The factor between plain cubic and hostcc is measured as the lab
does, in runs of their own, and then by the command, which switches the agents while the jobs run.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec

from benchmarks import goals, options
from benchmarks.context import Context
from benchmarks.harness import repeated
from benchmarks.headings import Heading, cells, columns
from benchmarks.record import Record, Verdict
from hostcc.cli.compare import MIN_CONFIDENCE
from hostcc.client import ask
from hostcc.errors import HostccError
from hostcc.lab.errors import LabError

HOSTCC = (sys.executable, "-m", "hostcc")
RUN_DIR = Path("/run/hostcc-lab")
SUBJECT, REFERENCE = "agents", "cubic"
JOB, HOST = "one", "h1"
OTHER_HOSTS = 3
SCENARIO = """
alone_iterations = 0
iterations = {iterations}
gossip = true
[[job]]
name = "one"
flows = 8
jitter_percent = 12
compute_ms = 132
comm_ms = 108
[[job]]
name = "other"
flows = 8
jitter_percent = 12
compute_ms = 132
comm_ms = 108
[[variant]]
name = "agents"
agent = {{ }}
"""
ENDLESS_ITERATIONS = 20_000
PATIENCE_S = 120.0
NEAR = 0.05
"""Relative difference of two factors that are the same."""


class Figures(msgspec.Struct, frozen=True):
    """The factor, as found in both ways."""

    lab: Annotated[float, Heading("cubic over hostcc, lab", 3)]
    compared: Annotated[float, Heading("gain, compare", 3)]
    low: Annotated[float, Heading("from", 3)]
    high: Annotated[float, Heading("to", 3)]
    iterations: Annotated[float, Heading("iterations", 0)]


def add_options(parser: argparse.ArgumentParser) -> None:
    """How long both take."""
    options.add_iterations(parser, 120)
    parser.add_argument(
        "--for", dest="for_s", type=options.whole("--for", 60, 3600), default=240, metavar="S",
        help="seconds that the command compares (default: %(default)d)",
    )  # fmt: skip


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    parameters = {"iterations": args.iterations, "for_s": args.for_s}
    runs, failures = repeated(
        context, Figures, "compare", parameters,
        lambda _: measure(args.iterations, args.for_s, context),
    )  # fmt: skip
    return Record(
        benchmark="compare",
        title="hostcc compare on live jobs, beside runs of their own",
        parameters={**parameters, "runs": context.runs},
        columns=columns(Figures),
        rows=[dict(cells(runs))] if runs else [],
        goals=judge(runs) if runs else [],
        notes=["lab: after the tenth iteration of a run; from, to: 95 % confidence interval"],
        failures=failures,
    )


def judge(runs: Sequence[Figures]) -> list[Verdict]:
    """Both ways have to find the same."""
    apart = [abs(one.compared / one.lab - 1) for one in runs]
    return [goals.verdict(JOB, f"within {NEAR:.0%} of the lab's factor", apart, at_most=NEAR)]


def measure(iterations: int, for_s: int, context: Context) -> Figures:
    """Both ways, one after the other.  Raises LabError."""
    with tempfile.TemporaryDirectory(prefix="hostcc-compare-") as scratch:
        folder = Path(scratch)
        context.tell("runs of their own", 0, 2)
        lab = factor(folder, iterations)
        context.tell("hostcc compare", 1, 2)
        with running(folder) as socket:
            found = compared(socket, for_s)
    gain, used = found["gain"], found["iterations"]
    return Figures(lab, gain["value"], gain["low"], gain["high"], float(used))


def factor(folder: Path, iterations: int) -> float:
    """Mean iteration under cubic over that under hostcc, as the lab finds it."""
    out = folder / "lab"
    command = _lab(folder, iterations, f"{SUBJECT},{REFERENCE}", out)
    done = _ended(command)
    if done.returncode:
        raise LabError(f"hostcc lab run: {done.stderr.strip()[-300:]}")
    found = json.loads((out / "results.json").read_text())
    means = {one["name"]: _mean(one) for one in found["variants"]}
    return means[REFERENCE] / means[SUBJECT]


@contextmanager
def running(folder: Path) -> Iterator[Path]:
    """Jobs and agents, until the end; the control socket of the first host."""
    before = set(RUN_DIR.glob(f"*/{HOST}/control.sock"))
    command = _lab(folder, ENDLESS_ITERATIONS, SUBJECT, folder / "live")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as lab:
        try:
            socket = _wait("agents", lambda: _fresh(before))
            _wait("the job's pattern", lambda: _is_known(socket))
            yield socket
        finally:
            lab.send_signal(signal.SIGINT)


def compared(socket: Path, for_s: int) -> dict[str, Any]:
    """What the command says of the job under hostcc."""
    command = [*HOSTCC, "compare", "--for", f"{for_s}s", "--jobs", JOB, "--socket", str(socket)]
    done = _ended([*command, "--json"])
    if done.returncode:
        raise LabError(f"hostcc compare: {done.stdout.strip()[-200:]} {done.stderr.strip()[-200:]}")
    document = json.loads(done.stdout)
    if document["other_hosts"] != OTHER_HOSTS:
        raise LabError(f"hostcc compare: {document['other_hosts']} other hosts switched")
    found: dict[str, Any] = document["jobs"][0]["figures"][1]
    return found


def _ended(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command to its end.  Interrupted, it is told so and removes what it has made."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as running:
        try:
            out, error = running.communicate()
        except BaseException:
            running.send_signal(signal.SIGINT)
            running.communicate()
            raise
    return subprocess.CompletedProcess(command, running.returncode, out, error)


def _lab(folder: Path, iterations: int, variants: str, out: Path) -> list[str]:
    path = folder / f"{iterations}.toml"
    path.write_text(SCENARIO.format(iterations=iterations))
    return [*HOSTCC, "lab", "run", str(path), "--compare", variants, "--out", str(out)]


def _mean(variant: dict[str, Any]) -> float:
    seconds = [job["seconds"][10:] for run in variant["runs"] for job in run["jobs"]]
    return sum(map(sum, seconds)) / sum(map(len, seconds))


def _fresh(before: set[Path]) -> Path | None:
    return next(iter(set(RUN_DIR.glob(f"*/{HOST}/control.sock")) - before), None)


def _is_known(socket: Path) -> bool:
    with suppress(HostccError):
        members = (ask(socket, "status")["gossip"] or {}).get("members", {})
        profile = ask(socket, "profile", job=JOB)["profile"] or {}
        sure = profile.get("periodic") and profile["confidence"] >= MIN_CONFIDENCE
        return members.get("alive") == OTHER_HOSTS and bool(sure)
    return False


def _wait(what: str, found: Any) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (value := found()):
        if time.monotonic() > deadline:
            raise LabError(f"waited in vain for {what}")
        time.sleep(0.2)
    return value
