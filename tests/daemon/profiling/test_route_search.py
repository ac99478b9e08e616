"""When routes are asked for again, on a meter in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hostcc.daemon.profiling import routes
from hostcc.daemon.profiling import traffic as t
from hostcc.daemon.profiling.route_search import ROUTES_S, ROUTES_UNCHANGED_S
from hostcc.daemon.profiling.routes import Question, Route
from hostcc.daemon.profiling.tracks import MAX_WAIT_S
from hostcc.measure.destinations import Address
from tests.daemon.profiling.test_traffic import JOBS, Watched

pytestmark = [pytest.mark.unit, pytest.mark.slow]


class Asked:
    """Routes are asked for, and each job's is answered unless a test says otherwise."""

    def __init__(self, watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at_s: list[float] = []
        self.answered = True

        def answers(questions: list[Question]) -> dict[str, dict[Address, Route]]:
            self.at_s.append(watched.meter.now_ns / 1e9)
            return {one.job: {} for one in questions} if self.answered else {}

        monkeypatch.setattr(routes, "answers", answers)


@pytest.mark.asyncio
@pytest.mark.parametrize(("answered", "every_s"), [(True, ROUTES_UNCHANGED_S), (False, ROUTES_S)])
async def test_routes_are_asked_for_seldom_while_all_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answered: bool, every_s: float
) -> None:
    watched = Watched(tmp_path, monkeypatch, 0.0)
    asked = Asked(watched, monkeypatch)
    asked.answered = answered
    await watched.run(4 * ROUTES_UNCHANGED_S)
    apart_s = np.diff(asked.at_s)[1:]  # not all jobs have been looked at by the first
    assert len(apart_s) >= 2
    assert apart_s == pytest.approx(every_s, abs=MAX_WAIT_S)


@pytest.mark.asyncio
async def test_who_sends_elsewhere_is_asked_about_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(tmp_path, monkeypatch, 0.0)
    asked = Asked(watched, monkeypatch)
    watched.meter.other_from_ns = int(100e9)
    await watched.run(100 + 2 * ROUTES_S + MAX_WAIT_S)
    (first, *_) = [at_s for at_s in asked.at_s if at_s > 100]
    assert first <= 100 + ROUTES_S + MAX_WAIT_S + t.READ_S


@pytest.mark.asyncio
async def test_another_meter_is_told_of_the_jobs_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(tmp_path, monkeypatch, 0.0)
    asked = Asked(watched, monkeypatch)
    await watched.run(MAX_WAIT_S + ROUTES_S)
    before = len(asked.at_s)
    await watched.part.start()
    await watched.turn()
    assert watched.meter.told == [JOBS, JOBS]
    for _ in range(round((MAX_WAIT_S + ROUTES_S) / t.READ_S)):
        await watched.turn()
    watched.part.stop()
    assert len(asked.at_s) > before
