"""Rows of `hostcc flows`: the path of a connection and how switches see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

import msgspec

from hostcc.answers.flows import FlowRow
from hostcc.bpf.loader.errors import BpfError
from hostcc.bpf.loader.netns import in_netns
from hostcc.daemon.jobs.sockets import copies
from hostcc.daemon.steering.elephants import flow_id
from hostcc.daemon.supervisor import Host
from hostcc.errors import HostccError
from hostcc.model import Plan
from hostcc.paths import sockdiag
from hostcc.paths.sockdiag import Ends
from hostcc.paths.steering_messages import FlowKey

WANTED, FOUND = "wanted", "found"
"""A flow is on the path that the plan gives it, or where switches put it."""
Wire = Callable[[FlowKey], tuple[str, int]]
"""Path (empty: unknown) and source port on the wire of a connection."""


def described(
    rows: Iterable[FlowRow],
    wire: Wire,
    name: str,
    plan: Plan | None,
    dscp: Mapping[Ends, int],
    *,
    by_label: bool = False,
) -> list[FlowRow]:
    """Add path, source port on the wire and mark to rows of `hostcc.flows/1`.  Pure.

    `name`: of this host in the plan that holds; `dscp`: of connections, by their ends;
    `by_label`: IPv6 flows are moved by flow label.
    """
    prefix = f"{name}/"
    flows = plan.flows if plan is not None else ()
    paths = {x.flow.removeprefix(prefix): x.path for x in flows if x.flow.startswith(prefix)}
    levels = {x.job: x.level for x in plan.jobs} if plan is not None else {}
    found = []
    for row in rows:
        key = key_of(row)
        path, port = wire(key)
        label = port if by_label and ":" in key.src and port != key.sport else None
        planned = paths.get(flow_id(key), "")
        found.append(
            msgspec.structs.replace(
                row,
                path=path or None,
                planned_path=planned or None,
                path_is=(WANTED if path == planned else FOUND) if path else None,
                wire_port=key.sport if label else port,
                flow_label=label,
                dscp=dscp.get((key.src, key.sport, key.dst, key.dport)),
                level=levels.get(row.job),
            )
        )
    return found


def key_of(row: FlowRow) -> FlowKey:
    """Return the 5-tuple of a row, in the direction that this host sends in."""
    (src, sport), (dst, dport) = _end(row.local), _end(row.remote)
    return FlowKey(src, dst, sport, dport)


def marks(host: Host) -> Callable[[], dict[Ends, int]]:
    """Return a function that reads the DSCP of connections in all namespaces of jobs' sockets.

    The function blocks; call it in a thread.
    """
    engine = host.engine
    if engine is None:
        return lambda: _marks_here({})
    sockets, jobs = engine.table.sockets, copies(engine.table.jobs.values())

    def found() -> dict[Ends, int]:
        marks: dict[Ends, int] = {}
        with sockets.namespaces(jobs) as where:
            for one in where:
                with suppress(BpfError):  # it has just ended
                    in_netns(one, lambda: _marks_here(marks))
        return marks

    return found


def _marks_here(found: dict[Ends, int]) -> dict[Ends, int]:
    # Add those of this namespace; none where the kernel does not say.
    with suppress(HostccError):
        found.update(sockdiag.marks())
    return found


def _end(text: str) -> tuple[str, int]:
    address, _, port = text.rpartition(":")
    return address.strip("[]"), int(port)
