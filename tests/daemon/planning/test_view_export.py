"""The document of a view says all that its plan depends on."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace

import pytest
from hypothesis import given, settings

from hostcc.cli import viewfile
from hostcc.config.sections.plan import PlanConfig
from hostcc.daemon.planning import planner, view_export
from hostcc.model import ClusterView, Path, PathTable
from hostcc.schedule.plan import plan
from tests.schedule.paths import problems
from tests.schedule.views import job, one_link

pytestmark = pytest.mark.unit


def written(view: ClusterView, config: PlanConfig | None = None) -> bytes:
    answer = view_export.exported(view, config or PlanConfig(), in_force=True)
    assert answer.digest == view.digest
    return zlib.decompress(base64.b64decode(answer.document))


@given(problems.views())
@settings(max_examples=20, deadline=None)
def test_any_view_is_read_back_with_the_same_plan(view: ClusterView) -> None:
    config = PlanConfig(levels=5, most_loss=0.5, paths="crux", reserved=(1, 0))
    given = viewfile.given(written(view, config), "FILE")
    again, options = viewfile.model_of(given), viewfile.planned_by(given.options)
    assert options == planner.options(config)
    assert again == view
    assert plan(again, options) == plan(view, options)


def test_pieces_are_joined() -> None:
    profiles = [job(f"j{at}") for at in range(2 * view_export.PIECE_ITEMS + 1)]
    view = one_link(profiles, [1.0] * len(profiles))
    assert viewfile.view_of(written(view), "FILE") == view
    assert len(list(view_export.document(view, PlanConfig()))) > 10


def test_no_bound_is_one_as_in_the_configuration() -> None:
    given = viewfile.given(written(ClusterView(digest="d")), "FILE")
    assert given.options.most_loss == 1.0
    assert viewfile.planned_by(given.options) == planner.options(PlanConfig())


def test_ports_are_left_out() -> None:
    table = PathTable("a", "b", (Path("p", ("link",), (1, 2)),), 7.0)
    view = replace(one_link([job("a")], [1.0]), tables=(table,))
    (found,) = json.loads(written(view))["tables"]
    assert found == {"src": "a", "dst": "b", "paths": [{"id": "p", "links": ["link"]}]}
