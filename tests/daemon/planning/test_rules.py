"""What plans depend on beside the view, and how members differ in it."""

from __future__ import annotations

import msgspec
import pytest

from hostcc.answers.gossip import Disagreement, OtherOptions
from hostcc.config.sections.plan import PlanConfig
from hostcc.coord.core.payloads import MAX_OPTIONS, Rules, decode, encode
from hostcc.daemon.planning.rules import (
    LOCAL_KEYS,
    MAX_MEMBERS_SHOWN,
    MAX_OPTIONS_SHOWN,
    disagreements,
    rules,
    text,
    unlike,
)
from hostcc.schedule.revision import REVISION
from tests.coord.records import record

pytestmark = pytest.mark.unit

USUAL = rules(PlanConfig())


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"levels": 9}, ("plan.levels", "9")),
        ({"reserved": (7, 0, 0)}, ("plan.reserved", "[0,7]")),
        ({"order": "crux"}, ("plan.order", '"crux"')),
        ({"paths": "ecmp"}, ("plan.paths", '"ecmp"')),
        ({"compression": "balanced"}, ("plan.compression", '"balanced"')),
        ({"fairness": 1.0}, ("plan.fairness", "1.0")),
        ({"most_loss": 0.5}, ("plan.most_loss", "0.5")),
    ],
)
def test_what_plans_depend_on_is_in_the_rules(
    change: dict[str, object], named: tuple[str, str]
) -> None:
    changed = rules(msgspec.structs.replace(PlanConfig(), **change))
    assert changed == Rules(REVISION, (named,))
    assert text(changed) != text(USUAL)
    assert decode(record("a", "rules", "", encode(changed))) == changed


def test_no_option_of_the_section_is_forgotten() -> None:
    changed = {"levels", "reserved", "order", "paths", "compression", "fairness", "most_loss"}
    assert changed | LOCAL_KEYS == set(PlanConfig.__struct_fields__)


def test_another_scheduler_is_another_rule() -> None:
    assert text(rules(PlanConfig(), REVISION + 1)) != text(USUAL)


def test_what_is_each_hosts_affair_is_not() -> None:
    assert rules(PlanConfig(enabled=False, max_age_s=1.0, act_on_paths="timeout")) == USUAL
    assert rules(PlanConfig(reserved=(7, 1, 0, 0))) == USUAL


def test_who_differs_in_what() -> None:
    own = rules(PlanConfig(levels=4))
    assert disagreements(own, {"b": own}, {}) == ()
    found = disagreements(
        own,
        {"b": own, "c": USUAL, "d": Rules(REVISION + 1, (("plan.levels", "4"),))},
        {"e": "0.0.9"},
    )
    assert found == (
        Disagreement("plan.levels", "4", (OtherOptions("8 (the default)", ("c",), 1),)),
        Disagreement(
            "scheduler",
            str(REVISION),
            (
                OtherOptions(str(REVISION + 1), ("d",), 1),
                OtherOptions("unknown (hostcc 0.0.9)", ("e",), 1),
            ),
        ),
    )
    (one,) = disagreements(USUAL, {"x": Rules(REVISION, (("plan.new", "1"),))}, {})
    assert one == Disagreement("plan.new", "the default", (OtherOptions("1", ("x",), 1),))


def test_what_is_named_is_bounded() -> None:
    options = tuple((f"plan.o{number}", "1") for number in range(MAX_OPTIONS))
    many = {f"m{number:03}": Rules(REVISION, options) for number in range(100)}
    found = disagreements(USUAL, many, {})
    assert len(found) == MAX_OPTIONS_SHOWN
    (there,) = found[0].there
    assert (there.members, there.count) == (tuple(sorted(many)[:MAX_MEMBERS_SHOWN]), 100)


def test_options_of_one_member_are_told() -> None:
    own = rules(PlanConfig(levels=4))
    assert unlike(own, own) == ()
    assert unlike(own, rules(PlanConfig(order="crux"))) == ("plan.levels", "plan.order")
    assert unlike(own, Rules(REVISION + 1, own.options)) == unlike(own, None) == ("scheduler",)
