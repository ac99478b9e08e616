"""What an agent changes of this host's jobs when it starts."""

from __future__ import annotations

from collections.abc import Mapping

from hostcc.config.schema import Config, job_params, port_rules
from hostcc.config.sections.job import JobRequest
from hostcc.daemon.changes import kinds
from hostcc.daemon.jobs import released
from hostcc.mltcp.params import Mode, Variant
from hostcc.model import Change
from hostcc.system.cgroups import CgroupTree


def planned(
    config: Config,
    tree: CgroupTree,
    left: Mapping[str, Change],
    names: Mapping[Variant, str],
    default_ca: str,
) -> list[Change]:
    """The changes that `JobTable.start` makes.

    `left`: the changes in force by an earlier agent's journal.  `names`: of the congestion control
    of each variant.
    """
    changes, running = base_group(tree), dict[str, JobRequest]()
    for group, (known, back) in released.left_groups(left, tree).items():
        changes += back
        if released.lives(group, back, tree):
            running[group.name] = known.wishes
        else:
            changes.append(kinds.leftover(group))
    rules = port_rules(config)
    if rules:
        changes.append(kinds.port_rules(rules, tree.root))
    for name in sorted({*rules.values(), *running}):
        params = job_params(config, name, config.mltcp.mode, wishes=running.get(name))
        if params.mode is not Mode.OFF:
            why = "found running" if name in running else "[[job]] in the configuration"
            changes.append(kinds.job_sockets(params, names[params.variant], default_ca, why))
    return changes


def base_group(tree: CgroupTree) -> list[Change]:
    """The directory of the jobs' cgroups, unless it is there."""
    return [] if tree.exists(tree.base) else [kinds.base_group(tree.base)]
