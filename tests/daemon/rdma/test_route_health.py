"""When steered queue pairs go back to the path that they had."""

from __future__ import annotations

import pytest

from hostcc.config.sections.paths import PathsConfig
from hostcc.daemon.rdma.pairs import Pair
from hostcc.daemon.rdma.path_doubts import STANDS
from hostcc.daemon.rdma.queue_pair_flows import QueuePairRoute
from hostcc.daemon.rdma.route_health import STALLED_S, RouteHealth

pytestmark = pytest.mark.unit
ROUTE = QueuePairRoute("a", "mlx5_0", "198.18.1.1", "198.18.2.1")
CONFIG = PathsConfig()
PLANNED = (50000, 50002)


class Scene:
    """A route with two queue pairs, looked at every second."""

    def __init__(self) -> None:
        self.health, self.now = RouteHealth(), 100.0
        self.counts = [(0, 0.0), (0, 0.0)]
        self.sent = self.lost = 0

    def second(
        self,
        ports: tuple[int, int],
        message_s: float = 0.001,
        messages: int = 10,
        lost: int = 0,
        *,
        stalled: bool = False,
    ) -> str:
        """Why the route goes back after one more second."""
        self.now += 1.0
        self.counts = [(n + messages, took + messages * message_s) for n, took in self.counts]
        self.sent, self.lost = self.sent + 1000, self.lost + lost
        pairs = [
            (1, Pair(qpn, ROUTE.device, 1, ROUTE.source, ROUTE.destination, port, 0, 0, 0, 0,
                     completed=count, busy_s=took))
            for qpn, (port, (count, took)) in enumerate(zip(ports, self.counts, strict=True))
        ]  # fmt: skip
        found = self.health.take(
            {ROUTE: pairs}, {ROUTE.device: (self.sent, self.lost)}, lambda _: PLANNED,
            {ROUTE} if stalled else set(), CONFIG, self.now,
        )  # fmt: skip
        return found.get(ROUTE, "")

    def held(self) -> str:
        return self.health.held(self.now).get(ROUTE, "")


def test_messages_that_take_longer_than_before_send_it_back_for_a_time() -> None:
    scene = Scene()
    for _ in range(5):
        assert scene.second((0, 0), 0.010) == ""
    assert scene.second(PLANNED, 0.010) == ""
    assert scene.second(PLANNED, 0.050) == ""  # not for long yet
    why = scene.second(PLANNED, 0.050)
    assert why == "went back: a message 50.0 ms instead of 10.0 ms"
    assert scene.held() == why
    for _ in range(int(CONFIG.again_s) - 1):
        scene.second((0, 0), 0.010)
        assert scene.held() == why
    scene.second((0, 0), 0.010)
    assert scene.held() == ""


@pytest.mark.parametrize(
    ("before_s", "after_s"),
    [(0.001, 0.015), (0.050, 0.150)],  # less than 20 ms more; less than four times as long
)
def test_a_little_longer_is_no_reason(before_s: float, after_s: float) -> None:
    scene = Scene()
    for _ in range(3):
        scene.second((0, 0), before_s)
    assert not any(scene.second(PLANNED, after_s) for _ in range(10))


def test_what_it_had_on_no_other_path_is_not_compared() -> None:
    """A queue pair that began on its planned path, with short messages at first."""
    scene = Scene()
    scene.second(PLANNED, 0.0001)
    assert not any(scene.second(PLANNED, 0.5) for _ in range(10))


def test_losses_above_those_before_send_it_back() -> None:
    scene = Scene()
    for _ in range(3):
        scene.second((0, 0), lost=15)
    assert not any(scene.second(PLANNED, lost=25) for _ in range(5))
    scene.second(PLANNED, lost=50)
    assert scene.second(PLANNED, lost=50) == "went back: 5.0 % of the packets sent again"


def test_what_stands_still_goes_back_at_once() -> None:
    scene = Scene()
    scene.second((0, 0))
    scene.second(PLANNED)
    assert scene.second(PLANNED, messages=0, stalled=True) == f"went back: {STANDS}"
    for _ in range(int(STALLED_S) - 1):
        scene.second((0, 0), messages=0)
        assert scene.held()
    scene.second((0, 0))
    assert not scene.held()


def test_one_message_that_stood_still_does_not_count_twice() -> None:
    """Others failed meanwhile, or the peer did; nothing more completes for seconds after it."""
    scene = Scene()
    for _ in range(3):
        scene.second((0, 0), 0.001)
    scene.second(PLANNED, 7.5, messages=1)
    assert not any(scene.second(PLANNED, messages=0) for _ in range(5))
    assert scene.second(PLANNED, 0.001) == ""
    scene.second(PLANNED, 7.5, messages=1)
    scene.second(PLANNED, messages=0)
    assert scene.second(PLANNED, 7.5, messages=1) == (
        "went back: a message 7500.0 ms instead of 1.0 ms"
    )


def test_a_move_under_way_is_not_judged() -> None:
    """One of two queue pairs has not drained yet."""
    scene = Scene()
    for _ in range(3):
        scene.second((0, 0), 0.001)
    assert not any(scene.second((PLANNED[0], 0), 0.5) for _ in range(5))
