"""A spine dies without a word: flows leave it, and come back when it does."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from hostcc.lab import netns
from tests.daemon.steering.agents_stage import AgentsStage
from tests.daemon.steering.test_agents import OVER, collide, sent, shares, wait

pytestmark = pytest.mark.kernel


@pytest.fixture
def stage() -> Iterator[AgentsStage]:
    with AgentsStage(OVER) as made:
        yield made


def used(stage: AgentsStage) -> set[str]:
    """Spines that the first leaf sends more than a tenth to."""
    before = sent(stage)
    time.sleep(1.0)
    more = {name: count - before[name] for name, count in sent(stage).items()}
    return {name for name, count in more.items() if count > 0.1 * sum(more.values())}


def forward(stage: AgentsStage, spine: str, on: bool) -> None:
    netns.set_sysctls(stage.fabric.namespace(spine), {"net/ipv4/ip_forward": str(int(on))})


def test_flows_leave_a_spine_that_swallows_everything(stage: AgentsStage) -> None:
    stage.start()
    one, two, first = collide(stage)
    wait(stage, lambda: shares(stage)[0] > 0.25)
    (dead,) = sent(stage).keys() - {first}
    forward(stage, dead, on=False)

    def away() -> bool:
        return all(f["wire_port"] < 61000 for n in ("h1", "h2") for f in stage.flows(n))

    wait(stage, away)
    wait(stage, lambda: used(stage) == {first})
    forward(stage, dead, on=True)
    wait(stage, lambda: shares(stage)[0] > 0.25)
    assert min(one.finish(), two.finish()) > 0
