"""What an agent answers to a request for its view: `hostcc view`, `hostcc rank --live`."""

from __future__ import annotations

from msgspec import Struct

VIEW = "hostcc.view/1"


class View(Struct, frozen=True, kw_only=True):
    """A view of the cluster, as `hostcc plan VIEW` reads it; `hostcc view` prints that document
    alone."""

    schema: str = VIEW
    """Names this form."""
    digest: str
    """Of the view."""
    in_force: bool
    """Whether its plan is in force here: a newer view may not be planned yet."""
    document: str
    """The document ([form](internals/schedule.md#hostcc-plan-view)): JSON, compressed by zlib, in
    base64."""
