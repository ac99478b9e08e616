"""Changes that plans cause on this host, as far as they are known before there is a plan."""

from __future__ import annotations

from hostcc.config.schema import Config
from hostcc.daemon.changes import path_kinds
from hostcc.daemon.marking import queues
from hostcc.daemon.planning import levels
from hostcc.errors import HostccError
from hostcc.model import Change
from hostcc.paths import egress_kernel


def by_plans(config: Config) -> tuple[list[Change], list[str]]:
    """Changes, and what is missing for others, in words."""
    found: list[Change] = []
    trouble: list[str] = []
    if config.marking.enabled:
        dscp = levels.table(config.plan, config.marking)
        found.append(
            Change(
                id=path_kinds.MARKS,
                what=path_kinds.MARKS,
                target="jobs' sockets",
                before="as their applications set it",
                after={f"level {level}": f"DSCP {value}" for level, value in dscp.items()},
                why="[marking], while a plan holds",
                undo="give each socket back what it had",
            )
        )
    for device in config.egress.devices if config.egress.queues != "off" else ():
        try:
            found.append(queues.planned(config, device, egress_kernel.root(device))[0])
        except HostccError as error:
            trouble.append(f"another queue on {device}: {error}")
    return found, trouble
