"""The plan in force, as all parts read it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from hostcc.config.schema import Config
from hostcc.config.sections.gossip import GossipConfig
from hostcc.config.sections.plan import PlanConfig
from hostcc.daemon.planning.agreement_status import AgreementStatus
from hostcc.daemon.planning.following import FollowedPlan
from hostcc.daemon.planning.plan_store import ACTS, PlanStore
from tests.daemon.planning.made import made, standing
from tests.daemon.profiling.hosts import OWN, ToyHost

pytestmark = pytest.mark.unit


class Member:
    """A member that holds and follows one plan."""

    name = "here"
    result = made()
    agree = True

    def __init__(self) -> None:
        self.now = 0.0

    def agreement(self) -> AgreementStatus | None:
        return standing(self.result, self.now, plans_agree=self.agree)


@pytest.fixture
def member() -> Member:
    return Member()


@pytest.fixture
def host(tmp_path: Path) -> ToyHost:
    return ToyHost(tmp_path, Config(agent=OWN, gossip=GossipConfig(enabled=True)))


def test_who_reads_gets_the_plan_of_now(host: ToyHost, member: Member) -> None:
    store = PlanStore(host, member, lambda: member.now)
    assert store.member == "here"
    assert store.current() is member.result
    assert store.plan() is member.result.plan
    member.agreement = lambda: standing(member.result)  # type: ignore[method-assign]
    member.now = host.config.plan.max_age_s + 1.0
    assert (store.current(), store.plan()) == (None, None)
    assert "older than plan.max_age_s" in store.followed.why


def test_what_is_configured_counts_at_once(host: ToyHost, member: Member) -> None:
    store = PlanStore(host, member, lambda: member.now)
    assert store.current() is not None
    host.config = msgspec.structs.replace(host.config, plan=PlanConfig(enabled=False))
    assert store.current() is None
    assert store.disabled_reason() == "plan.enabled is false"


def test_a_plan_that_is_forgotten_begins_anew(host: ToyHost, member: Member) -> None:
    store = PlanStore(host, member, lambda: member.now)
    store.current()
    member.now = 7.0
    store.forget()
    assert store.followed == FollowedPlan()
    store.current()
    assert store.followed.since == 7.0


def test_an_act_waits_for_agreement_where_that_is_configured(host: ToyHost, member: Member) -> None:
    store = PlanStore(host, member, lambda: member.now)
    first = member.result
    assert {store.current(act) for act in ACTS} == {first}
    member.result, member.agree = made("new"), False
    assert store.current() is store.current("weights") is store.current("marks") is member.result
    assert store.current("paths") is first
    swapped = PlanConfig(act_on_weights="agreed", act_on_marks="agreed", act_on_paths="timeout")
    host.config = msgspec.structs.replace(host.config, plan=swapped)
    assert store.current("weights") is store.current("marks") is first
    assert store.plan("paths") is member.result.plan
