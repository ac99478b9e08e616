"""Run the cases of a benchmark, going on from those that are finished.

A case is one measurement in one of the runs.  Benchmarks list theirs run by run, so that a
slow change of the machine falls on all variants alike.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import hostcc
from benchmarks.cases import CaseStore, Identity, identity_of
from benchmarks.context import Context
from hostcc.bpf.loader.errors import BpfError
from hostcc.errors import HostccError, InputError

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


@dataclass(frozen=True)
class Case(Generic[Key, Result]):
    """One measurement."""

    key: Key
    """Of the table's row that it is a part of."""
    file: str
    """Path below the output directory, without its ending."""
    title: str
    """What failures and the log call it."""
    identity: Callable[[], Identity]
    """Taken when its turn comes: programs may change while a benchmark runs."""
    measure: Callable[[], Result]


@dataclass
class Measured(Generic[Key, Result]):
    """The results of all cases that came about, and why others did not."""

    done: list[tuple[Case[Key, Result], Result]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    outdated: int = 0
    """Cases of other programs than today's; only a report has any."""

    @property
    def results(self) -> dict[Key, list[Result]]:
        """Row -> results, in the order of the cases."""
        found: dict[Key, list[Result]] = {}
        for case, result in self.done:
            found.setdefault(case.key, []).append(result)
        return found

    @property
    def notes(self) -> list[str]:
        """What a reader has to know of where the figures come from."""
        return [f"{self.outdated} cases are of other programs than today's"] * bool(self.outdated)


def run_cases(
    context: Context,
    kind: type[Result],
    cases: Sequence[Case[Key, Result]],
    short: Callable[[Result], str] = str,
    convert: Callable[[Any], Result] | None = None,
) -> Measured[Key, Result]:
    """Measure what is not there yet; a case that fails is recorded, and the rest goes on.

    `kind` is what cases are decoded as (`convert`: cases.CaseStore), `short` a result in a line of
    the log.  Raises InputError: a wrong option or scenario fails every case alike.
    """
    store = CaseStore(
        context.out, kind, context.fresh, any_programs=context.report_only, convert=convert
    )
    measured: Measured[Key, Result] = Measured()
    missing: list[str] = []
    for number, case in enumerate(cases):
        identity = case.identity()
        result = store.load(case.file, identity)
        if result is None:
            if context.report_only:
                missing.append(case.title)
                continue
            context.tell(case.title, number, len(cases))
            try:
                result = case.measure()
            except InputError:
                raise
            except (HostccError, BpfError, OSError) as error:
                measured.failures.append(f"{case.title}: {error}")
                context.say(measured.failures[-1])
                continue
            store.save(case.file, identity, result)
            context.say(f"{number + 1}/{len(cases)} {case.title}: {short(result)}")
        measured.done.append((case, result))
    if missing:
        measured.failures.append(f"{len(missing)} of {len(cases)} cases, first {missing[0]}")
    measured.outdated = len(store.outdated)
    return measured


def repeated(
    context: Context,
    kind: type[Result],
    name: str,
    parameters: Mapping[str, Any],
    measure: Callable[[int], Result],
) -> tuple[list[Result], list[str]]:
    """One measurement in every run: the results, and why others did not come about.

    `measure` gets the number of the run, from 1.  Whole agents are measured, so results of other
    code of hostcc than today's are measured again.
    """
    code = [Path(path) for path in hostcc.__path__]
    cases = [
        Case(
            None,
            f"cases/{name}-{number}",
            f"run {number}",
            lambda: identity_of(parameters, code=code),
            lambda number=number: measure(number),  # type: ignore[misc]
        )
        for number in range(1, context.runs + 1)
    ]
    measured = run_cases(context, kind, cases)
    return measured.results.get(None, []), measured.failures
