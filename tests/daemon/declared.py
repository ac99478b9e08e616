"""What parts say in the status is declared, so that commands, metrics and the page know it."""

from __future__ import annotations

from msgspec import convert, to_builtins

from hostcc.answers.parts import PARTS
from hostcc.daemon import supervisor


def check_declared(part: supervisor.Part) -> None:
    """The figures of a part are those that readers expect of its name, as they come to them."""
    view = part.view()
    row = view.figures if isinstance(view, supervisor.WithBlock) else view
    assert type(row) is PARTS[part.name]
    assert convert(to_builtins(row), type(row)) == row
