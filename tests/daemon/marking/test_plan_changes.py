"""What is known of plans' changes before there is one."""

from __future__ import annotations

import pytest

from hostcc.config.schema import Config
from hostcc.config.sections.egress import EgressConfig
from hostcc.config.sections.marking import MarkingConfig
from hostcc.daemon.marking.plan_changes import by_plans

pytestmark = pytest.mark.unit


def test_nothing_by_default() -> None:
    assert by_plans(Config()) == ([], [])


def test_marks_by_level_and_devices_that_are_not_there() -> None:
    egress = EgressConfig(queues="prio", devices=("hcc-none",))
    changes, trouble = by_plans(Config(marking=MarkingConfig(enabled=True), egress=egress))
    (change,) = changes
    assert change.what == "job-mark"
    assert change.after == {
        "level 2": "DSCP 40",
        "level 3": "DSCP 32",
        "level 4": "DSCP 24",
        "level 5": "DSCP 16",
        "level 6": "DSCP 8",
    }
    assert trouble == ["another queue on hcc-none: there is no such device"]
