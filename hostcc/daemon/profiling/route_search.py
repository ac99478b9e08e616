"""Asks for routes and link speeds now and then, and remembers the last answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from hostcc.daemon.profiling import routes
from hostcc.daemon.profiling.live_jobs import LiveJob
from hostcc.daemon.profiling.routes import Question, Route
from hostcc.daemon.profiling.tracks import Track
from hostcc.log import get_logger
from hostcc.measure.destinations import Address
from hostcc.system.cgroups import CgroupTree

log = get_logger("traffic")

ROUTES_S, ROUTES_UNCHANGED_S = 10.0, 60.0
"""Between reads of routes and link speeds, seconds; the second, while all jobs send where they
did."""


class RouteSearch:
    """The ways of all jobs' traffic; one look at a time, in a thread."""

    def __init__(self) -> None:
        self.ways: Mapping[str, Mapping[Address, Route]] = {}
        """Job -> destination -> the way there, by the last answer."""
        self._task: asyncio.Task[None] | None = None
        self._due_s = 0.0
        self._asked: tuple[float, Mapping[str, frozenset[Address]]] = 0.0, {}
        """When routes were last asked for, seconds, and of which destinations of each job."""

    def start(self) -> None:
        """Ask again at the next look."""
        self._asked = 0.0, {}

    def stop(self) -> None:
        """Forget everything."""
        if self._task is not None:
            self._task.cancel()
        self._task, self.ways = None, {}

    def look(self, tracks: Mapping[str, Track], live: Mapping[str, LiveJob], now_s: float) -> None:
        """Start a look when it is time; only where there is traffic."""
        if now_s < self._due_s or (self._task is not None and not self._task.done()):
            return
        to = {name: frozenset(track.to) for name, track in tracks.items() if track.to}
        if not to:
            return
        self._due_s = now_s + ROUTES_S
        if to != self._asked[1] or now_s - self._asked[0] >= ROUTES_UNCHANGED_S:
            self._asked = now_s, to
            questions = [
                Question(name, _netns_of(live[name]), tuple(tracks[name].to)) for name in to
            ]
            self._task = asyncio.get_running_loop().create_task(self._ask(questions))

    async def _ask(self, questions: list[Question]) -> None:
        try:
            self.ways = await asyncio.to_thread(routes.answers, questions)
        except Exception as error:  # noqa: BLE001 - speeds stay unknown, nothing else
            log.defect("looking at routes failed", error)
        if any(one.job not in self.ways for one in questions):
            self._asked = 0.0, {}


def _netns_of(job: LiveJob) -> Path | None:
    """The network namespace of one of its processes; our own without any."""
    tree = CgroupTree(Path("/"))
    pid = next((pid for group in job.groups for pid in tree.pids(group)), 0)
    return Path(f"/proc/{pid}/ns/net") if pid else None
