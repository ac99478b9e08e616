"""What is asked of jobs beside other traffic."""

from __future__ import annotations

from benchmarks import mltcp_neighbours
from benchmarks.record import Spread, spread


def cell(mean: float, neighbour: float) -> dict[str, Spread]:
    return {"mean": spread([mean]), "background_mbit": spread([neighbour])}


def test_neighbour_keeps_its_share_and_jobs_their_time() -> None:
    cells = {"hostcc": cell(1.2, 96.0), "cubic": cell(1.3, 100.0)}
    assert [entry.met for entry in mltcp_neighbours.judge("x", cells)] == [True, True]
    cells = {"hostcc": cell(1.4, 90.0), "cubic": cell(1.3, 100.0)}
    assert [entry.met for entry in mltcp_neighbours.judge("x", cells)] == [False, False]
    cells = {"hostcc": cell(1.4, 90.0), "cubic": cell(1.3, 0.0)}
    assert not mltcp_neighbours.judge("x", cells)[0].met
    assert mltcp_neighbours.judge("x", {"cubic": cell(1, 1)}) == []
