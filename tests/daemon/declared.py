"""What parts say in the status is declared, so that commands, metrics and the page know it."""

from __future__ import annotations

from msgspec import convert

from hostcc.answers.parts import PARTS
from hostcc.daemon import supervisor
from tools.answers_page import field_names

BLOCKS = {"routing"}
"""What of a part's view has a place of its own in the status."""


def check_declared(part: supervisor.Part) -> None:
    """The view of a part can be read as the answer that is declared of it, and has no other key."""
    kind, view = PARTS[part.name], dict(part.view())
    unknown = view.keys() - field_names(kind).keys() - BLOCKS
    assert not unknown
    convert({"name": part.name, "state": "running", **view}, kind)
