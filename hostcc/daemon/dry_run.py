"""What an agent would change on this host when it starts, by what its parts plan."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hostcc.config.schema import Config
from hostcc.daemon import enforcement, preflight
from hostcc.daemon.changes.journal import Journal
from hostcc.daemon.gates import gates_task
from hostcc.daemon.marking import plan_changes as marking
from hostcc.daemon.rdma import plan_publisher
from hostcc.daemon.steering import steering_parts
from hostcc.errors import HostccError
from hostcc.model import Change
from hostcc.system.cgroups import CgroupTree, resolve_root


def planned(config: Config) -> tuple[list[Change], list[str]]:
    """Changes in the order in which they would be made, and what is missing for others, in words.

    Reads only.  Raises HostccError.
    """
    missing = preflight.missing(config.agent.cgroup_root)
    if config.agent.observe_only or any("cgroup" in text for text in missing):
        return [], missing
    tree = CgroupTree(resolve_root(config.agent.cgroup_root))
    by_plans, lacking = marking.by_plans(config)
    changes = [
        *enforcement.planned(config, tree, _left(Path(config.agent.run_dir))),
        *plan_publisher.planned(config),
        *gates_task.planned(config),
        *by_plans,
        *steering_parts.planned(config.paths),
    ]
    return changes, missing + lacking


def _left(run_dir: Path) -> Mapping[str, Change]:
    """Changes that an earlier agent has left behind; none for a user who may not read them."""
    try:
        return Journal(run_dir).active
    except HostccError:
        return {}
