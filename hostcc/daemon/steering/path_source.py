"""Makes the Explorer that the configuration names."""

from __future__ import annotations

from pathlib import Path

from hostcc.config.sections.paths import PathsConfig
from hostcc.daemon.steering.path_discovery import Explorer, ExternalPaths, Probes
from hostcc.daemon.steering.telemetry_records import Records
from hostcc.paths.hash_file import read as read_hashes
from hostcc.paths.probed_tables import LinkNames
from hostcc.paths.refresh import RefreshSettings
from hostcc.paths.search import SearchSettings
from hostcc.paths.sources import StaticSource

TELEMETRY_S = 1.0
AGAIN_S = 1.0
"""Least time between two full searches."""


def explorer(config: PathsConfig, records: Records) -> Explorer:
    """Make the Explorer; `records`: of telemetry.  It reads and sends nothing before its first
    search."""
    file = Path(config.file)
    if config.source == "static":
        return ExternalPaths(lambda: StaticSource.read(file), config.full_s)
    if config.source == "hash":
        ports = range(config.first_port, config.last_port + 1)
        return ExternalPaths(lambda: read_hashes(file, ports), config.full_s)
    if config.source == "telemetry":
        return ExternalPaths(lambda: records.current(config), TELEMETRY_S)
    return Probes(
        range(config.first_port, config.last_port + 1),
        SearchSettings(per_hop_pps=config.probe_per_s),
        RefreshSettings(
            spot_s=config.spot_s,
            full_s=config.full_s,
            again_s=AGAIN_S,
            # Queues that jobs fill by themselves are no other way.
            rtt_floor_s=config.rtt_floor_ms / 1e3,
        ),
        LinkNames(config.names),
        labels=config.ipv6 == "label",
    )
