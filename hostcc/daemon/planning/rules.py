"""Compares what plans depend on beside the view: the scheduler's revision, and options.

Each member publishes its own.  Members that differ cannot agree, so their differences are shown.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hostcc.answers.gossip import Disagreement, OtherOptions
from hostcc.config.sections.plan import PlanConfig
from hostcc.coord.core.payloads import Rules
from hostcc.schedule.revision import REVISION

LOCAL_KEYS = frozenset({"enabled", "max_age_s", "act_on_weights", "act_on_marks", "act_on_paths"})
"""Keys of `[plan]` that no plan depends on."""
SCHEDULER = "scheduler"
"""Name of the scheduler's revision among the options."""
MAX_MEMBERS_SHOWN = 8
MAX_OPTIONS_SHOWN = 16
"""Bounds, because other members choose what they publish."""


def rules(config: PlanConfig, revision: int = REVISION) -> Rules:
    """Return what this host's plans depend on.

    Options at their defaults are left out: so a new option is no difference between a host that
    knows it and those that do not.
    """
    mine, usual = _values(config), _values(PlanConfig())
    return Rules(revision, tuple((key, mine[key]) for key in mine if mine[key] != usual[key]))


def text(of: Rules) -> str:
    """Return the rules as a part of a view's digest."""
    return " ".join(f"{name}={value}" for name, value in _named(of).items())


def disagreements(
    own: Rules, others: Mapping[str, Rules], silent: Mapping[str, str]
) -> tuple[Disagreement, ...]:
    """Return options in which other members differ.  `silent`: member that publishes no rules ->
    its hostcc version, which is older than the rules."""
    mine, found = _named(own), dict[str, dict[str, list[str]]]()
    usual = _values(PlanConfig())
    for member in sorted(others):
        theirs = _named(others[member])
        for option in mine.keys() | theirs.keys():
            if mine.get(option) != theirs.get(option):
                value = theirs.get(option) or _usual(usual, option)
                found.setdefault(option, {}).setdefault(value, []).append(member)
    for member in sorted(silent):
        value = f"unknown (hostcc {silent[member] or 'of no version'})"
        found.setdefault(SCHEDULER, {}).setdefault(value, []).append(member)
    return tuple(
        Disagreement(
            option,
            mine.get(option) or _usual(usual, option),
            tuple(
                OtherOptions(value, tuple(members[:MAX_MEMBERS_SHOWN]), len(members))
                for value, members in sorted(found[option].items())
            ),
        )
        for option in sorted(found)[:MAX_OPTIONS_SHOWN]
    )


def unlike(own: Rules, other: Rules | None) -> tuple[str, ...]:
    """Return the options in which another member differs; None: it publishes no rules."""
    if other is None:
        return (SCHEDULER,)
    mine, theirs = _named(own), _named(other)
    names = sorted(mine.keys() | theirs.keys())
    return tuple(name for name in names if mine.get(name) != theirs.get(name))[:MAX_OPTIONS_SHOWN]


def _named(of: Rules) -> dict[str, str]:
    return {SCHEDULER: str(of.scheduler), **dict(of.options)}


def _values(config: PlanConfig) -> dict[str, str]:
    """Name -> value as the configuration would say it."""
    given = msgspec.structs.asdict(config)
    given["reserved"] = sorted(set(config.reserved))
    return {
        f"plan.{key}": msgspec.json.encode(value).decode()
        for key, value in sorted(given.items())
        if key not in LOCAL_KEYS
    }


def _usual(usual: Mapping[str, str], option: str) -> str:
    return f"{usual[option]} (the default)" if option in usual else "the default"
