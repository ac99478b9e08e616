"""Agreement among hosts: partition, healing, different rules, and what is logged of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from benchmarks.gossip_world import Member, World
from hostcc.coord import view as views
from hostcc.coord.core.coordinator import Coordinator, Planner
from hostcc.coord.core.message import PROTOCOL, Message, ViewReport
from hostcc.coord.core.node import Node
from hostcc.coord.core.payloads import FlowEntry, Flows, Links, PathEntry, Paths, Profile
from hostcc.coord.core.settings import Settings
from hostcc.errors import InputError
from hostcc.model import ClusterView, Plan
from hostcc.schedule.plan import Options, plan

pytestmark = pytest.mark.unit

SETTINGS = Settings(suspect_s=1.0, suspect_factor=2.0, rejoin_s=2.0, agree_s=2.0)
NAMES = ("a", "b", "c", "d")


def planner(view: ClusterView) -> Plan:
    return plan(view, Options(simulations=0))


def world(
    rules: dict[str, str] | None = None,
    planners: dict[str, Planner] | None = None,
    make: Callable[[Node, Random], Member] | None = None,
) -> World:
    """Four hosts in one job."""

    def usual(node: Node, rng: Random) -> Member:
        plans = (planners or {}).get(node.name, planner)
        return Coordinator(node, plans, (rules or {}).get(node.name, "r"), rng)

    made = World(1, SETTINGS, make=make or usual)
    for index, name in enumerate(NAMES):
        node, after = made.add(name), NAMES[(index + 1) % 4]
        node.add_contact("a")
        node.publish("profile", "j", Profile(1.0, 0.5, 1e12, 8.0, to=((after, 1e9),)))
        node.publish("flows", "j", Flows((FlowEntry("f", after, 1e9),)))
    return made


def of(made: World, name: str) -> Coordinator:
    found = made.hosts[name].member
    assert isinstance(found, Coordinator)
    return found


def actives(made: World) -> dict[str, str]:
    return {name: of(made, name).state.active for name in NAMES}


def agreed(made: World) -> bool:
    states = [of(made, name).state for name in NAMES]
    return all(one.agreed for one in states) and len({one.active for one in states}) == 1


def test_all_follow_one_plan() -> None:
    made = world()
    made.run(15)
    assert agreed(made)
    plans = [of(made, name).plan for name in NAMES]
    assert plans[0] is not None
    assert all(one == plans[0] for one in plans)
    assert plans[0].digest == of(made, "a").state.active
    events = made.hosts["a"].node.take_events()
    activations = of(made, "a").activations
    assert [event.text.split()[2] for event in events if event.what == "activation"] == [
        activation.digest for activation in activations
    ]


def test_news_after_a_quiet_time_make_a_view_at_once() -> None:
    made = world()
    made.run(15)
    member, node = of(made, "a"), made.hosts["a"].node
    now = made.now
    for after_s, is_seen in ((0.0, True), (0.3, False), (0.6, False), (1.0, True), (1.1, False)):
        before = member.snapshot.digest
        node.publish("profile", "j", Profile(1.0, 0.5, (2 + after_s) * 1e12, 8.0))
        member.tick(now + after_s)
        assert (member.snapshot.digest != before) is is_seen


def test_the_last_report_makes_a_round_due_at_once() -> None:
    made = world()
    made.run(15)
    member, node = of(made, "a"), made.hosts["a"].node
    node.publish("profile", "j", Profile(1.0, 0.5, 2e12, 8.0))
    member.tick(made.now)
    rests = []
    for peer in node.neighbours:
        rests.append(member.rest_s())
        holding = ViewReport(member.state.held)
        member.receive(peer, Message(PROTOCOL, holding=holding), made.now)
    assert rests == [SETTINGS.round_s] * 3
    assert member.rest_s() == 0.0
    member.tick(made.now)
    assert member.state.agreed
    assert member.rest_s() > 0.0


def test_two_sides_go_on_and_heal() -> None:
    made = world()
    made.run(15)
    whole = actives(made)["a"]
    made.disturb(side={"a": 0, "b": 0, "c": 1, "d": 1})
    made.run(40)
    sides = actives(made)
    assert sides["a"] == sides["b"] != whole
    assert sides["c"] == sides["d"] != whole
    assert all(of(made, name).state.agreed for name in NAMES)
    assert of(made, "a").snapshot.view.members == ("a", "b")
    made.disturb(side={})
    made.run(40)
    assert agreed(made)
    assert actives(made)["a"] == whole


def test_hosts_of_other_rules_are_waited_for_in_vain() -> None:
    made = world({"d": "other"})
    made.run(20)
    state = of(made, "a").state
    assert not state.agreed
    assert "d" in state.missing
    assert state.active == state.held
    last = of(made, "a").activations[-1]
    assert not last.agreed
    assert "d" in last.missing


def test_hosts_of_other_rules_with_the_same_plan_do_not_differ() -> None:
    made = world({"d": "other"})
    made.run(20)
    assert of(made, "a").state.active != of(made, "d").state.active
    assert of(made, "a").plan is not None
    assert [of(made, name).differing_jobs() for name in NAMES] == [{}] * 4
    assert all(of(made, name).plans_agree and of(made, name).agreed for name in NAMES)
    assert not any(of(made, name).state.agreed for name in NAMES)


@pytest.mark.parametrize("same", [True, False])
def test_a_job_that_is_not_published_yet_is_compared_with_its_other_hosts(same: bool) -> None:
    local = set[str]()

    def other(view: ClusterView) -> Plan:
        found = planner(view)
        return replace(found, jobs=tuple(replace(one, level=one.level + 1) for one in found.jobs))

    def make(node: Node, rng: Random) -> Member:
        alone = node.name == "e"
        plans = other if alone and not same else planner
        rules = "other" if alone else "r"
        return Coordinator(node, plans, rules, rng, local_jobs=lambda: local if alone else ())

    made = world(make=make)
    made.add("e").add_contact("a")
    made.run(15)
    assert of(made, "e").plans_agree
    assert made.hosts["e"].node.neighbours == ()
    local.add("j")  # as after a restart: it runs, and is not measured yet
    assert not of(made, "e").plans_agree
    made.run(5)
    assert of(made, "e").plans_agree is same
    differing = of(made, "e").differing_jobs()
    assert {job: set(hosts) for job, hosts in differing.items()} == (
        {} if same else {"j": set(NAMES)}
    )
    assert all(of(made, name).plans_agree for name in NAMES)


@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_a_host_with_another_plan_is_known_to_all_hosts_of_the_job(loss: float) -> None:
    def other(view: ClusterView) -> Plan:
        found = planner(view)
        return replace(found, jobs=tuple(replace(one, level=one.level + 1) for one in found.jobs))

    made = world({"d": "other"}, {"d": other})
    made.disturb(loss=loss)
    made.run(30)
    for name in ("a", "b", "c"):
        hosts = of(made, name).differing_jobs()["j"]
        assert set(hosts) == {"d"}
        assert hosts["d"] > 10
        assert not of(made, name).agreed
    assert set(of(made, "d").differing_jobs()["j"]) == {"a", "b", "c"}
    made.disturb(side={"a": 0, "b": 0, "c": 0, "d": 1})
    made.run(40)
    assert [of(made, name).differing_jobs() for name in NAMES] == [{}] * 4
    made.disturb(side={})
    made.run(40)
    assert set(of(made, "a").differing_jobs()["j"]) == {"d"}


def test_a_new_job_changes_the_plan_of_all() -> None:
    made = world()
    made.run(15)
    before = actives(made)["a"]
    made.hosts["c"].node.publish("profile", "k", Profile(2.0, 1.0, 1e13, 4.0))
    made.run(10)
    assert agreed(made)
    assert actives(made)["a"] != before
    made.hosts["c"].node.withdraw("profile", "k")
    made.run(10)
    assert set(actives(made).values()) == {before}


def test_a_plan_that_cannot_be_made_means_defaults() -> None:
    def refuse(view: ClusterView) -> Plan:
        raise InputError("view: expected something else")

    made = World(1, SETTINGS, make=lambda node, rng: Coordinator(node, refuse, "r", rng))
    made.add("a")
    made.run(5)
    assert of(made, "a").plan is None
    events = made.hosts["a"].node.take_events()
    assert any(event.what == "plan" for event in events)


class Later:
    """A plan that is ready when somebody says so."""

    def __init__(self, work: Callable[[], Plan]) -> None:
        self.work, self.ready = work, False

    def done(self) -> bool:
        return self.ready

    def result(self) -> Plan:
        return self.work()


def test_a_plan_may_be_made_elsewhere() -> None:
    pending: list[Later] = []

    def submit(work: Callable[[], Plan]) -> Later:
        pending.append(Later(work))
        return pending[-1]

    made = World(
        1, SETTINGS, make=lambda node, rng: Coordinator(node, planner, "r", rng, executor=submit)
    )
    made.add("a")
    host = of(made, "a")
    made.run(5)
    first = host.state.active
    assert (len(pending), host.plan) == (1, None)
    host.node.publish("profile", "j", Profile(1.0, 0.5, 1e12, 8.0))
    made.run(5)
    assert host.state.active != first
    assert (len(pending), host.plan) == (1, None)  # one at a time
    pending[0].ready = True
    made.run(5)
    assert host.plan is not None
    assert (len(pending), host.plan.digest) == (2, first)
    pending[1].ready = True
    made.run(5)
    assert host.plan.digest == host.state.active
    assert len(pending) == 2


def test_a_plan_that_may_not_begin_yet_is_asked_for_again() -> None:
    free: list[bool] = []

    def submit(work: Callable[[], Plan]) -> Later | None:
        made = Later(work)
        made.ready = True
        return made if free else None

    made = World(
        1, SETTINGS, make=lambda node, rng: Coordinator(node, planner, "r", rng, executor=submit)
    )
    made.add("a")
    host = of(made, "a")
    made.run(5)
    assert (bool(host.state.active), of(made, "a").plan) == (True, None)
    assert host.plan_waits
    host.node.publish("profile", "j", Profile(1.0, 0.5, 1e12, 8.0))
    made.run(5)
    free.append(True)
    made.run(1)
    assert host.plan is not None
    assert host.plan.digest == host.state.active  # not the one in between
    assert not host.plan_waits


@pytest.mark.parametrize("whole", [0, 3])
def test_a_host_plans_the_jobs_that_are_coupled_with_its_own(
    monkeypatch: pytest.MonkeyPatch, whole: int
) -> None:
    monkeypatch.setattr(views, "MAX_WHOLE_JOBS", whole)
    local, seen = {"d": {"m", "unheard of"}}, dict[str, set[str]]()

    def make(node: Node, rng: Random) -> Member:
        def watched(view: ClusterView) -> Plan:
            seen[node.name] = {one.job for one in view.jobs}
            return planner(view)

        def jobs() -> set[str]:
            return local.get(node.name, set())

        return Coordinator(node, watched, "r", rng, local_jobs=jobs)

    made = World(1, SETTINGS, make=make)
    for name, job, way in (("a", "j", "x"), ("b", "k", "x"), ("c", "m", "y"), ("d", "", "")):
        node = made.add(name)
        node.add_contact("a")
        if job:
            node.publish("profile", job, Profile(1.0, 0.5, 1e12, 8.0))
            node.publish("flows", job, Flows((FlowEntry("f", "d", 1e9),)))
            node.publish("paths", "d", Paths((PathEntry("p", (way,)),)))
            node.publish("links", "", Links(((way, 1e9),)))
    made.run(20)
    every = {"j", "k", "m"}
    if whole:
        assert seen == dict.fromkeys("abcd", every)
        return
    assert seen == {"a": {"j", "k"}, "b": {"j", "k"}, "c": {"m"}, "d": {"m"}}
    local["d"] = {"j"}  # another job begins; the view is as it was
    made.run(1)
    assert seen["d"] == {"j", "k"}
    assert len({of(made, name).plan.digest for name in NAMES}) == 1  # type: ignore[union-attr]


def test_what_is_wrong_with_a_view_is_kept() -> None:
    def refuse(view: ClusterView) -> Plan:
        raise InputError("view: expected something else")

    made = World(1, SETTINGS, make=lambda node, rng: Coordinator(node, refuse, "r", rng))
    made.add("a")
    made.run(5)
    assert of(made, "a").plan_error == "view: expected something else"
