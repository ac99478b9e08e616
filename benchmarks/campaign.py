"""Run many lab cases: one scenario, variant and run number each, finished ones kept.

Runs are interleaved (every case once, then every case again), so that a slow change of the
machine affects all variants alike, and so that a killed benchmark has some cases of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from benchmarks import headings
from benchmarks.cases import Identity, identity_of
from benchmarks.context import Context
from benchmarks.figures import combined, figures
from benchmarks.harness import Case, run_cases
from benchmarks.record import Spread
from hostcc.lab import plots, results, runner
from hostcc.lab.results import Results
from hostcc.lab.scenario import Scenario
from hostcc.lab.variants import Variant, resolve


@dataclass(frozen=True)
class Group:
    """What is compared with each other: one scenario under several variants."""

    key: str
    """Name of its directory and in failures."""
    scenario: Scenario
    variants: tuple[str, ...]


@dataclass(frozen=True)
class Campaign:
    """The outcome: what was measured of each group, and what was not."""

    parts: dict[str, list[Results]]
    failures: list[str]
    notes: list[str]
    """What a reader has to know of where the figures come from."""

    def group(self, key: str) -> Results | None:
        """A group's results as one comparison; None: nothing was measured."""
        parts = self.parts.get(key)
        return combined(parts) if parts else None

    def cells(self, key: str) -> dict[str, dict[str, Spread]]:
        """variant -> figure -> over the runs."""
        measured = self.group(key)
        return {} if measured is None else cells(measured)


@dataclass(frozen=True)
class _Case:
    group: Group
    variant: Variant
    run: int

    @property
    def name(self) -> str:
        return f"{self.group.key}/cases/{self.variant.name}-{self.run}"

    @property
    def scenario(self) -> Scenario:
        """With the times alone in the first run only."""
        if self.run == 1:
            return self.group.scenario
        return msgspec.structs.replace(self.group.scenario, alone_iterations=0)

    def identity(self) -> Identity:
        """Read anew each time: programs may change while a benchmark runs."""
        what = {
            "scenario": self.scenario,
            "control": [self.variant.default_control, self.variant.socket_control],
            "agent": self.variant.agent,
        }
        return identity_of(what, programs=self.variant.agent is not None)


def cells(measured: Results) -> dict[str, dict[str, Spread]]:
    """variant -> figure -> over the runs."""
    return {
        variant.name: headings.cells([figures(run) for run in variant.runs])
        for variant in measured.variants
    }


def run(groups: Sequence[Group], context: Context) -> Campaign:
    """Measure what is not there yet.  A case that fails is recorded, and the rest goes on."""
    todo = _cases(groups, context.runs)
    measured = run_cases(
        context,
        Results,
        [
            Case(
                case.group.key,
                case.name,
                case.name.replace("/cases/", ", "),
                case.identity,
                partial(_measure, case, context, number, len(todo)),
            )
            for number, case in enumerate(todo)
        ],
        _in_short,
        results.convert,
    )
    events = [
        f"{case.file}: {event.what}: {event.problem}"
        for case, part in measured.done
        for entry in part.variants[0].runs
        for event in entry.events
        if event.problem
    ]
    return Campaign(measured.results, [*measured.failures, *events], measured.notes)


def keep(campaign: Campaign, out: Path) -> list[Path]:
    """Write each group's results.json and plots; returns their paths."""
    written = []
    for key in campaign.parts:
        measured = campaign.group(key)
        if measured is None:
            continue
        directory = out / key
        directory.mkdir(parents=True, exist_ok=True)
        target = directory / "results.json"
        target.write_bytes(results.encode(measured))
        written += [target, *plots.draw(_with_series(measured, directory), directory)]
    return written


def _cases(groups: Sequence[Group], runs: int) -> list[_Case]:
    return [
        _Case(group, variant, number)
        for number in range(1, runs + 1)
        for group in groups
        for variant in resolve(group.variants, group.scenario)
    ]


def _measure(case: _Case, context: Context, number: int, total: int) -> Results:
    what = f"{case.group.key} {case.variant.name} #{case.run}"
    context.tell(what, number, total)
    out = None
    if context.out is not None and case.run == 1:  # the first run's bandwidth is plotted
        out = context.out / case.group.key
        out.mkdir(parents=True, exist_ok=True)

    def tell(_: str, done: int, of: int) -> None:
        context.tell(what, number + min(1.0, done / max(of, 1)), total)

    comparison = runner.Comparison(
        case.group.key, case.scenario, (case.variant,), out=out, seed=case.run
    )
    return runner.run(comparison, tell)


def _in_short(measured: Results) -> str:
    found = figures(combined([measured]).variants[0].runs[0])
    return f"mean {found.mean:.3f}, rest {found.rest:.3f}, loss {found.loss_percent:.2f} %"


def _with_series(measured: Results, directory: Path) -> Results:
    """Without mention of series that are not there (any more)."""
    return msgspec.structs.replace(
        measured,
        variants=[
            msgspec.structs.replace(
                variant,
                runs=[
                    entry
                    if entry.series and (directory / entry.series).exists()
                    else msgspec.structs.replace(entry, series=None)
                    for entry in variant.runs
                ],
            )
            for variant in measured.variants
        ],
    )
