"""After a failure: only stranded flows move, and to nothing that has failed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.schedule.paths import clos as closes
from hostcc.schedule.paths import fabric as fabrics
from hostcc.schedule.paths import failover, two_layer
from hostcc.schedule.paths.clos import Clos, Flows
from tests.schedule.paths import cases

pytestmark = pytest.mark.unit


@given(cases.fabrics_and_flows(), st.data())
def test_only_stranded_flows_move_and_to_links_that_live(
    case: tuple[Clos, Flows], data: st.DataObject
) -> None:
    clos, flows = case
    outward = flows.src != flows.dst
    routing = two_layer.route(clos, flows)
    index = data.draw(st.integers(0, clos.spines - 1))
    tor = data.draw(st.integers(-1, len(clos.up) - 1))
    left = (
        closes.without_spines(clos, [index])
        if tor < 0
        else closes.without_links(clos, [(tor, index)])
    )
    fabric, table = closes.fabric(left, flows)
    demand = fabrics.integer_demands(flows.demand)
    before = np.where(outward, routing.spine, 0)
    stranded, after = failover.reroute_stranded(fabric, table, demand, before)
    assert set(np.flatnonzero(after != before).tolist()) <= set(stranded.tolist())
    on = np.flatnonzero(outward & (after != failover.CUT_OFF))
    assert np.all(left.up[flows.src[on], after[on]] > 0)
    assert np.all(left.down[flows.dst[on], after[on]] > 0)
    for flow in stranded[after[stranded] == failover.CUT_OFF].tolist():
        assert not ((left.up[flows.src[flow]] > 0) & (left.down[flows.dst[flow]] > 0)).any()
