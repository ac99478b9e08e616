"""A rolling upgrade: two processes of one job whose schedulers or options are not the same."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.patience import until

pytestmark = [pytest.mark.unit, pytest.mark.slow]

JOBS = {"x", "y", "z"}
SHARED = ["x", "y"]
"""Jobs that another order plans otherwise; z has a link of its own."""
BOUND_S = 1.0
"""`max_age_s`."""
PATIENCE_S = 60.0
OTHER_ORDER = {"order": "crux"}
SAME_PLANS = {"order": "varys"}
"""An option that makes no other plan of these jobs."""


class Member:
    """A process of planning_member.py."""

    def __init__(self, name: str, other: str, seed: str, revision: int, **plan: Any) -> None:
        words = [name, other, seed, str(revision), json.dumps({"max_age_s": BOUND_S, **plan})]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.daemon.planning.planning_member", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.seed = f"{name}@{self._line()}"

    def told(self) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        found: dict[str, Any] = json.loads(self._line())
        return found

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


class Pair:
    """Both hosts, looked at again and again."""

    def __init__(self) -> None:
        self.one = Member("one", "two", "", 1)
        self.two: Member | None = None
        self.samples = 0

    def start_two(self, revision: int, **plan: Any) -> None:
        if self.two is not None:
            self.two.close()
        self.two = Member("two", "one", self.one.seed, revision, **plan)

    def look(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What both tell.  No job is by a plan on a host that knows for longer than the bound that
        the other one has another."""
        assert self.two is not None
        one, two = self.one.told(), self.two.told()
        self.samples += 1
        for host in (one, two):
            assert not set(host["left_out"]) & host["weights"].keys()
            assert not set(host["left_out"]) & host["paths"].keys()
        return one, two

    def close(self) -> None:
        for member in (self.one, self.two):
            if member is not None:
                member.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


def together(pair: Pair) -> bool:
    """Whether both act by the same plans, and know each other and that."""
    one, two = pair.look()
    if (one["differs"].keys(), two["differs"].keys()) != ({"two"}, {"one"}):
        return False
    same = one["weights"] == two["weights"] == one["paths"] == two["paths"]
    return bool(same and one["weights"].keys() == JOBS and one["agreed"] and two["agreed"])


def test_other_schedulers_and_options_agree_where_their_plans_are_the_same(pair: Pair) -> None:
    pair.start_two(2, **SAME_PLANS)
    until(lambda: together(pair), "both agree", PATIENCE_S)
    until(lambda: bool(pair.look()[0]["differs"]["two"]), "options are told", PATIENCE_S)
    one, two = pair.look()
    assert one["active"] != two["active"]
    assert (one["differing"], two["differing"]) == ([], [])
    assert one["differs"]["two"] == two["differs"]["one"] == ["plan.order", "scheduler"]


def test_no_two_plans_stay_in_force_for_a_job_during_an_upgrade(pair: Pair) -> None:
    pair.start_two(1)
    until(lambda: together(pair), "both agree", PATIENCE_S)
    pair.start_two(2, **OTHER_ORDER)

    def left() -> bool:
        one, two = pair.look()
        return bool(one["left_out"] == two["left_out"] == SHARED)

    until(left, lambda: f"both return to the defaults: {pair.look()}", PATIENCE_S)
    for _ in range(20):
        one, two = pair.look()
        assert one["left_out"] == two["left_out"] == one["differing"] == SHARED
        assert one["weights"] == two["weights"]
        assert one["weights"].keys() == {"z"}
        assert one["paths"].keys() <= {"z"} >= two["paths"].keys()
    pair.start_two(1)
    until(lambda: together(pair), "one plan after the upgrade", PATIENCE_S)
    assert pair.samples > 20
