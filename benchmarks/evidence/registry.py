"""The studies there are: those of every file in `benchmarks/evidence/studies`.

A file has `STUDIES`, and may have `ABSENT`: figures that cannot be reproduced, with the reason.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType

from benchmarks.evidence import studies
from benchmarks.evidence.document import Absent, Study

ELSEWHERE = (("MLTCP", "mltcp", "iteration times under MLTCP: real jobs in the lab"),)
"""(Source, benchmark, about): figures that `hostcc bench` measures."""


def every() -> dict[str, Study]:
    """Return name -> study, in the order of sources and figures."""
    found = [study for module in _modules() for study in module.STUDIES]
    return {study.name: study for study in sorted(found, key=lambda study: _key(study.name))}


def absent() -> list[Absent]:
    """Return what no study reproduces."""
    return [one for module in _modules() for one in getattr(module, "ABSENT", ())]


def _key(name: str) -> tuple[str, list[tuple[bool, int, str]]]:
    """`crux-4` before `crux-16`, and numbers before words."""
    family, _, rest = name.partition("-")
    words = rest.replace(".", "-").split("-")
    return family, [(False, int(word), "") if word.isdigit() else (True, 0, word) for word in words]


def _modules() -> Iterator[ModuleType]:
    for one in pkgutil.iter_modules(studies.__path__):
        module = importlib.import_module(f"{studies.__name__}.{one.name}")
        if hasattr(module, "STUDIES"):
            yield module
