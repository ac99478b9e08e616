"""The `[gossip]` of lab hosts, and their keys."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hostcc.coord.keys import files, identity
from hostcc.lab.network import Network
from hostcc.lab.topology import LabHost

PORT = 7471
SEEDS = 4
"""Members that an agent is told of; it learns of the others from them."""


def section(network: Network, host: LabHost, members: Sequence[LabHost]) -> dict[str, Any]:
    """How a host takes part; without keys where nobody else reaches the network."""
    seeds = [f"{one.name}@{network.gossip_address(one)}:{PORT}" for one in members if one != host]
    return {
        "enabled": True,
        "listen": f"{network.gossip_address(host)}:{PORT}",
        "keys": str(_directory(network, host)) if network.secured else "",
        "insecure": not network.secured,
        "seeds": seeds[:SEEDS],
    }


def make_keys(network: Network, members: Sequence[LabHost]) -> None:
    """Keys of every member, on its own host, and the public ones of all on every host.

    Keys that are there already stay.
    """
    made = []
    for host in members:
        directory = _directory(network, host)
        if (directory / files.HOST_FILE).exists():
            made.append(files.read_secret(directory).member)
            continue
        directory.parent.mkdir(exist_ok=True)
        own = identity.HostKeys(host.name, (identity.generate(time.time()),))
        files.write_host(directory, own)
        made.append(own.member)
    for host in members:
        for member in made:
            if member.name != host.name:
                files.allow(_directory(network, host), member)


def _directory(network: Network, host: LabHost) -> Path:
    return network.run_dir / host.name / "keys"
