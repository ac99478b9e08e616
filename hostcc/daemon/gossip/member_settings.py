"""Works out the settings of a member from `[gossip]`: its name, addresses and keys."""

from __future__ import annotations

import socket
from pathlib import Path

from hostcc.config.schema import Config
from hostcc.config.sections.agent import AgentConfig
from hostcc.coord.core.settings import Settings
from hostcc.coord.keys.files import HOST_FILE, read_secret
from hostcc.coord.member_name import MEMBER_NAME_WORDS, is_member_name
from hostcc.coord.net import address
from hostcc.coord.net.address import Address
from hostcc.coord.net.service import DEFAULT_PORT, ServiceSettings
from hostcc.errors import HostccError

ANY_ADDRESS, LOOPBACK_ADDRESS = "0.0.0.0", "127.0.0.1"
SOFTWARE_MAX = 32
"""Characters of the version in a member's record."""
VIEW_S = 0.5
"""Between two views while records change all the time.  Hosts make them at different moments, so
they may disagree, and wait for each other, for as long."""
AGREE_S = 1.5
"""How long a member waits for the others to hold the same view.  Where jobs come and go all the
time views never settle: after three times this a plan is made in any case, and a new job has waited
for it."""


def settings(config: Config, software: str) -> ServiceSettings:
    """Return how this host takes part, which depends on whether its keys exist.

    Raises HostccError for a name that no member can have, and keys that cannot be read.
    """
    gossip, keys = config.gossip, key_directory(config)
    host = ANY_ADDRESS if keys is not None or gossip.insecure else LOOPBACK_ADDRESS
    return ServiceSettings(
        name=gossip.name or _name(config.agent, keys),
        listen=address.parse(gossip.listen, "gossip.listen")
        if gossip.listen
        else Address(host, DEFAULT_PORT),
        keys=keys,
        insecure=gossip.insecure,
        seeds=tuple(
            address.parse_seed(seed, "gossip.seeds")
            for seed in gossip.seeds
            if not address.is_dns_seed(seed)
        ),
        dns_seeds=tuple(
            address.parse_dns_seed(seed, "gossip.seeds")
            for seed in gossip.seeds
            if address.is_dns_seed(seed)
        ),
        advertise=gossip.advertise,
        software=software[:SOFTWARE_MAX],
        gossip=Settings(view_s=VIEW_S, agree_s=AGREE_S),
    )


def key_directory(config: Config) -> Path | None:
    """Return where this host's keys are; None: it has none."""
    keys = Path(config.gossip.keys)
    return keys if config.gossip.keys and (keys / HOST_FILE).exists() else None


def _name(agent: AgentConfig, keys: Path | None) -> str:
    """As `hostcc keys new` would call this host, or has called it."""
    if keys is not None:
        return read_secret(keys).name
    alone = agent.instance == AgentConfig().instance
    found = socket.gethostname().split(".")[0] if alone else agent.instance
    if not is_member_name(found):
        raise HostccError(f"gossip.name: expected {MEMBER_NAME_WORDS}, got {found!r:.80}: set it")
    return found
