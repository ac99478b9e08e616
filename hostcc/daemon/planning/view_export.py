"""Writes a view as the JSON that `hostcc plan VIEW` reads, compressed.  Pure.

It is encoded in pieces, because each holds the interpreter's lock: a view of thousands of jobs is
tens of megabytes, and the agent's heartbeat does not wait for it.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from hostcc.answers.view import View
from hostcc.config.sections.plan import PlanConfig
from hostcc.model import ClusterView, PathTable

PIECE_ITEMS = 256
"""Jobs, flows or tables that are encoded at once."""
LEVEL = 1
"""Of the compression: the fastest, still a tenth of the size."""


def exported(view: ClusterView, config: PlanConfig, *, in_force: bool) -> View:
    """Return the answer of a view, with the options by which hosts plan it."""
    packer = zlib.compressobj(LEVEL)
    packed = b"".join([*map(packer.compress, document(view, config)), packer.flush()])
    return View(
        digest=view.digest, in_force=in_force, document=base64.b64encode(packed).decode("ascii")
    )


def document(view: ClusterView, config: PlanConfig) -> Iterator[bytes]:
    """Return the pieces of the document.

    Source ports and times of probing are left out: no plan depends on them.
    """
    head = {"digest": view.digest, "options": options(config), "members": view.members}
    yield msgspec.json.encode(head)[:-1]
    yield from _list("links", view.links)
    yield from _list("jobs", view.jobs)
    yield from _list("flows", view.flows)
    yield from _list("tables", map(_table, view.tables))
    yield b"}"


def options(config: PlanConfig) -> dict[str, Any]:
    """Return the options of plans as a view's document has them."""
    return {
        "levels": config.levels,
        "reserved": sorted(set(config.reserved)),
        "paths": config.paths,
        "order": config.order,
        "compression": config.compression,
        "fairness": config.fairness,
        "most_loss": config.most_loss,
    }


def _list(key: str, items: Iterable[Any]) -> Iterator[bytes]:
    yield f',"{key}":['.encode()
    separator, rest = b"", iter(items)
    while piece := list(islice(rest, PIECE_ITEMS)):
        yield separator + msgspec.json.encode(piece)[1:-1]
        separator = b","
    yield b"]"


def _table(one: PathTable) -> dict[str, object]:
    paths: Sequence[object] = [{"id": path.id, "links": path.links} for path in one.paths]
    return {"src": one.src, "dst": one.dst, "paths": paths}
