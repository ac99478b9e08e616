"""Asks the source of path tables that the configuration names for the paths of RoCE."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from hostcc.config.sections.paths import PathsConfig
from hostcc.daemon.rdma.path_tables import Ask, Check, blind
from hostcc.daemon.steering.path_discovery import passable
from hostcc.daemon.steering.telemetry_records import Records
from hostcc.errors import HostccError
from hostcc.model import PathTable
from hostcc.paths import prober
from hostcc.paths.hash_file import read as read_hashes
from hostcc.paths.packets import ROCE_PORT, UDP, Target
from hostcc.paths.probed_tables import LinkNames, table_of
from hostcc.paths.refresh import spot_settings
from hostcc.paths.search import SearchSettings
from hostcc.paths.sources import PathSource, StaticSource
from hostcc.verbs import roce_probe
from hostcc.verbs.ports import FIRST, LAST

PROBE_LIMIT_S = 60.0
CHECK_LIMIT_S = 10.0
QUICK_TIMEOUT_S, QUICK_ATTEMPTS = 0.2, 3
"""Of a quick look: what is silent is known after 0.6 s, and may be a router that is busy."""
ROCE_PORTS = range(FIRST, LAST + 1)
TELEMETRY_S = 5.0
"""Between two looks at the records."""


def ask(config: PathsConfig, records: Records) -> Ask:
    """Return what asks for the paths between two addresses, which blocks; it raises HostccError."""
    file = Path(config.file)
    if config.source == "static":
        return _asking("static", lambda: StaticSource.read(file))
    if config.source == "hash":
        return _asking("hash", lambda: read_hashes(file, ROCE_PORTS))
    if config.source == "telemetry":
        return _asking("telemetry", lambda: records.current(config))
    return _probing(LinkNames(config.names))


def interval_s(config: PathsConfig, probe_s: float) -> float:
    """Return how often to ask: telemetry costs nothing on the network."""
    return min(probe_s, TELEMETRY_S) if config.source == "telemetry" else probe_s


def _probing(names: LinkNames) -> Ask:
    def probe(src: str, dst: str) -> PathTable:
        ways = passable(roce_probe.routes(src, dst, limit_s=PROBE_LIMIT_S))
        return table_of(src, dst, ways, time.time(), names)

    return probe


def check(config: PathsConfig) -> Check:
    """Return what tells which paths of a table still work; it blocks, and raises HostccError.

    Other sources than probes send nothing, so they cannot tell.
    """
    return _checking(LinkNames(config.names)) if config.source == "probe" else blind


def _checking(names: LinkNames) -> Check:
    def look(table: PathTable, *, quick: bool = False) -> PathTable | None:
        target, ports = Target(table.src, table.dst, UDP), [one.ports[0] for one in table.paths]
        settings = look_settings(table, quick=quick)
        found = prober.search(target, ports, settings, limit_s=CHECK_LIMIT_S)
        now = table_of(table.src, table.dst, passable(found.paths), time.time(), names)
        return left(table, {path.id for path in now.paths})

    return look


def look_settings(table: PathTable, *, quick: bool) -> SearchSettings:
    """Return settings for a look at one port of each path, at their distance if it is the same."""
    settings = spot_settings(SearchSettings(), len(table.paths))
    lengths = {len(path.links) for path in table.paths}
    if len(lengths) == 1:
        settings = replace(settings, distance=lengths.pop())
    if quick:
        settings = replace(
            settings,
            parallel=len(table.paths),
            timeout_s=QUICK_TIMEOUT_S,
            attempts=QUICK_ATTEMPTS,
        )
    return settings


def left(table: PathTable, seen: Collection[str]) -> PathTable | None:
    """Return the paths that were seen, the table itself if all were; None where none was."""
    paths = tuple(path for path in table.paths if path.id in seen)
    if not paths:
        return None
    return replace(table, paths=paths) if len(paths) < len(table.paths) else table


def _asking(name: str, source: Callable[[], PathSource]) -> Ask:
    def look(src: str, dst: str) -> PathTable:
        found = source().table(Target(src, dst, UDP, ROCE_PORT))
        table = usable(found) if found is not None else PathTable(src, dst, ())
        if not table.paths:
            raise HostccError(
                f"paths.source {name} knows no path of UDP port {ROCE_PORT} with source ports "
                f"from {FIRST} to {LAST}"
            )
        return table

    return look


def usable(table: PathTable) -> PathTable:
    """Return the paths that RoCE can choose: by source ports that it can have."""
    paths = (
        replace(path, ports=tuple(port for port in path.ports if port in ROCE_PORTS))
        for path in table.paths
    )
    return replace(table, paths=tuple(path for path in paths if path.ports))
