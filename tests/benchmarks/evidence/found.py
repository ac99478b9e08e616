"""Evidence in its quick form, computed once for all tests of a file."""

from __future__ import annotations

from functools import cache

from benchmarks.evidence import registry
from benchmarks.evidence.document import Evidence, Line, Request


@cache
def quick(name: str) -> Evidence:
    """What a study finds in its quick form."""
    return registry.every()[name].run(Request(quick=True))


def line(name: str, setting: str, figure: str) -> Line:
    """The one line of a study with this setting and figure."""
    (found,) = (one for one in quick(name).lines if (one.setting, one.figure) == (setting, figure))
    return found


def unmet(name: str) -> list[tuple[str, str]]:
    """Settings and figures of a study whose bars are not met."""
    return [(one.setting, one.figure) for one in quick(name).lines if one.met is False]
