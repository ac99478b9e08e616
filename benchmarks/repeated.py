"""One measurement, as often as the command line says, going on from what is finished."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from benchmarks.cases import CaseStore, identity_of
from benchmarks.context import Context
from hostcc.bpf.loader.errors import BpfError
from hostcc.errors import HostccError

Figures = TypeVar("Figures")


def repeated(
    context: Context,
    kind: type[Figures],
    name: str,
    parameters: Mapping[str, Any],
    measure: Callable[[], Figures],
) -> tuple[list[Figures], list[str]]:
    """Runs that came about, as `name`-NUMBER in the store of cases, and why others did not."""
    store = CaseStore(context.out, kind, context.fresh, any_programs=context.report_only)
    identity = identity_of(parameters, programs=True)
    runs: list[Figures] = []
    failures: list[str] = []
    for number in range(1, context.runs + 1):
        case = f"cases/{name}-{number}"
        figures = store.load(case, identity)
        if figures is None and not context.report_only:
            try:
                figures = measure()
            except (HostccError, BpfError, OSError) as error:
                failures.append(f"run {number}: {error}")
                continue
            store.save(case, identity, figures)
            context.say(f"{number}/{context.runs}: {figures}")
        if figures is not None:
            runs.append(figures)
    return runs, failures
