"""What plans depend on beside the view: the scheduler's revision, and options.

Every member says its own; where members differ in them they cannot agree, so it is said in what.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from hostcc.config.sections.plan import PlanConfig
from hostcc.coord.core.payloads import Rules
from hostcc.schedule.revision import REVISION

OWN_BUSINESS = frozenset({"enabled", "max_age_s"})
"""Keys of `[plan]` that no plan depends on."""
SCHEDULER = "scheduler"
"""What the revision is called beside the options."""
MEMBERS_NAMED = 8
OPTIONS_NAMED = 16
"""So many of them: what others say they have is theirs to choose."""


@dataclass(frozen=True)
class OtherOptions:
    """What other members have in place of what this host has."""

    value: str
    members: tuple[str, ...]
    """The first of them by name."""
    count: int
    """How many there are in all."""


@dataclass(frozen=True)
class Disagreement:
    """Something that plans depend on and that is not the same on all members."""

    option: str
    """`plan.KEY`, or SCHEDULER."""
    here: str
    there: tuple[OtherOptions, ...]


def rules(config: PlanConfig, revision: int = REVISION) -> Rules:
    """What this host's plans depend on.

    Options at their defaults are not named: one that is new does not part a host that knows it
    from those that do not.
    """
    mine, usual = _values(config), _values(PlanConfig())
    return Rules(revision, tuple((key, mine[key]) for key in mine if mine[key] != usual[key]))


def text(of: Rules) -> str:
    """The same as a part of a view's digest."""
    return " ".join(f"{name}={value}" for name, value in _named(of).items())


def disagreements(
    own: Rules, others: Mapping[str, Rules], silent: Mapping[str, str]
) -> tuple[Disagreement, ...]:
    """In what other members differ; `silent`: member -> the hostcc version of one that does not say
    what its plans depend on, because it is of before that was said."""
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
                OtherOptions(value, tuple(members[:MEMBERS_NAMED]), len(members))
                for value, members in sorted(found[option].items())
            ),
        )
        for option in sorted(found)[:OPTIONS_NAMED]
    )


def _named(of: Rules) -> dict[str, str]:
    return {SCHEDULER: str(of.scheduler), **dict(of.options)}


def _values(config: PlanConfig) -> dict[str, str]:
    """Name -> value as the configuration would say it."""
    given = msgspec.structs.asdict(config)
    given["reserved"] = sorted(set(config.reserved))
    return {
        f"plan.{key}": msgspec.json.encode(value).decode()
        for key, value in sorted(given.items())
        if key not in OWN_BUSINESS
    }


def _usual(usual: Mapping[str, str], option: str) -> str:
    return f"{usual[option]} (the default)" if option in usual else "the default"
