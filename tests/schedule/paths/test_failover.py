"""Plans for failures: complete, minimal, and on nothing that has failed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from hostcc.schedule.paths import clos as closes
from hostcc.schedule.paths import failover, two_layer
from hostcc.schedule.paths.clos import Clos, Flows
from tests.schedule.paths import cases

pytestmark = pytest.mark.unit


@given(cases.fabrics_and_flows())
def test_only_flows_that_were_hit_move_and_to_links_that_live(case: tuple[Clos, Flows]) -> None:
    clos, flows = case
    routing = two_layer.route(clos, flows)
    outward = flows.src != flows.dst
    for plan in failover.prepare(clos, flows, routing.spine):
        left = plan.failure.after(clos)
        changed = np.flatnonzero(plan.spine != routing.spine)
        assert set(changed.tolist()) == set(plan.moved.tolist()) | set(plan.cut_off.tolist())
        on = np.flatnonzero(plan.spine >= 0)
        assert np.all(left.up[flows.src[on], plan.spine[on]] > 0)
        assert np.all(left.down[flows.dst[on], plan.spine[on]] > 0)
        assert set(np.flatnonzero(outward & (plan.spine < 0)).tolist()) == set(
            plan.cut_off.tolist()
        )
        for flow in plan.cut_off.tolist():
            assert not ((left.up[flows.src[flow]] > 0) & (left.down[flows.dst[flow]] > 0)).any()


def test_every_spine_and_link_with_traffic_has_a_plan() -> None:
    clos, flows = closes.uniform(6, 4), cases.random_flows(1, 6, 24)
    routing = two_layer.route(clos, flows)
    plans = list(failover.prepare(clos, flows, routing.spine))
    kinds = [plan.failure.kind for plan in plans]
    assert kinds.count(failover.SPINE) == 4
    used = set(zip(flows.src.tolist(), routing.spine.tolist(), strict=True))
    used |= set(zip(flows.dst.tolist(), routing.spine.tolist(), strict=True))
    assert kinds.count(failover.LINK) == len(used)
    for plan in plans:
        if plan.failure.kind == failover.SPINE:
            assert plan.peak <= closes.bound(plan.failure.after(clos), flows) + 1
