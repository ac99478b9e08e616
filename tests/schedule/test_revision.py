"""Another plan of a recorded view needs another revision of the scheduler."""

from __future__ import annotations

import pytest

from hostcc.schedule.revision import REVISION
from tests.schedule import recorded

pytestmark = pytest.mark.unit

STORED = recorded.load()


def test_the_revision_is_the_latest_that_was_recorded() -> None:
    assert max(map(int, STORED["plans"])) == REVISION, (
        "python -m tests.schedule.recorded records the plans of a new revision"
    )


@pytest.mark.parametrize("name", STORED["cases"])
def test_the_plan_is_the_one_recorded_for_this_revision(name: str) -> None:
    assert recorded.decided(STORED["cases"][name]) == STORED["plans"][str(REVISION)][name], (
        "hosts of the old code and of this one make different plans of one view: raise REVISION "
        "in hostcc/schedule/revision.py, then python -m tests.schedule.recorded"
    )
