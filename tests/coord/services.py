"""Whole members with keys, sockets and a planner, for tests."""

from __future__ import annotations

from pathlib import Path
from random import Random

from hostcc.coord.core.settings import Settings
from hostcc.coord.net.service import GossipService, ServiceSettings
from hostcc.coord.net.transport_settings import TransportSettings
from hostcc.model import ClusterView, Plan
from tests.coord.members import LOOPBACK

QUICK = Settings(round_s=0.05, sync_s=0.2, probe_s=0.2, ack_s=0.1, view_s=0.1, rejoin_s=0.5)
QUICK_TRANSPORT = TransportSettings(retry_s=(0.05, 0.3), down_s=1.0, keepalive_s=1)


def planner(view: ClusterView) -> Plan:
    return Plan(view.digest)


def member(name: str, keys: Path | None, *seeds: GossipService) -> GossipService:
    """Not yet started; knows those that it is given, which must run."""
    settings = ServiceSettings(
        name=name,
        listen=LOOPBACK,
        keys=keys,
        seeds=tuple((seed.settings.name, seed.transport.address) for seed in seeds),
        software="1.0",
        gossip=QUICK,
        transport=QUICK_TRANSPORT,
    )
    return GossipService(settings, planner, "test", rng=Random(name))


def agree(services: list[GossipService]) -> bool:
    """Whether all know all and follow one plan together."""
    digests = {service.status().active for service in services}
    everybody = all(
        service.status().members == {"alive": len(services) - 1} for service in services
    )
    return everybody and len(digests) == 1 and "" not in digests
