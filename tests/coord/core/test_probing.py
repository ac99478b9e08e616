"""Does a member answer: asking it, asking others, and what others may ask of this one."""

from __future__ import annotations

from random import Random

import pytest

from hostcc.coord.core.health import Health
from hostcc.coord.core.membership import Membership
from hostcc.coord.core.message import Probe
from hostcc.coord.core.probing import MAX_RELAYS, MAX_RELAYS_EACH, Prober
from hostcc.coord.core.settings import Settings
from hostcc.coord.core.store import Store

pytestmark = pytest.mark.unit

SETTINGS = Settings()


def prober(*others: str) -> tuple[Prober, Health]:
    members = Membership("me", Store(SETTINGS), SETTINGS, Random(1))
    members.adopt(list(others))
    health = Health()
    return Prober(members, health, SETTINGS, Random(2)), health


def test_silence_is_asked_about_then_accused_and_makes_one_doubt_oneself() -> None:
    one, health = prober("b", "c", "d")
    (((target, nonce),), _, _) = one.tick(10.0, ())
    again, requests, accused = one.tick(10.0 + SETTINGS.ack_s, ())
    assert again == [(target, nonce)]
    assert {helper for helper, _ in requests} == {"b", "c", "d"} - {target}
    assert not accused
    assert one.tick(10.0 + SETTINGS.probe_s, ())[2] == target
    assert health.patience == 2


def test_an_answer_ends_it() -> None:
    one, health = prober("b")
    health.worse()
    (((_, nonce),), _, _) = one.tick(10.0, ())
    assert one.acknowledge(nonce + 1) is None
    assert one.acknowledge(nonce) is None
    assert health.patience == 1
    assert one.tick(10.0 + SETTINGS.probe_s, ())[2] == ""


def test_nobody_takes_up_all_probes_for_others() -> None:
    one, _ = prober("b")
    asked = [one.relay("greedy", Probe("b", 7), 0.0) for _ in range(100)]
    assert sum(nonce is not None for nonce in asked) == MAX_RELAYS_EACH
    nonce = one.relay("honest", Probe("b", 9), 0.0)
    assert nonce is not None
    assert one.acknowledge(nonce) == ("honest", 9)
    for number in range(MAX_RELAYS):
        one.relay(f"h{number}", Probe("b", 7), 0.0)
    assert one.relay("late", Probe("b", 7), 0.0) is None
    one.tick(11 * SETTINGS.probe_s, ())
    assert one.relay("late", Probe("b", 7), 20.0) is not None


def test_what_is_asked_for_others_makes_no_round_due() -> None:
    one, _ = prober("b")
    (((_, nonce),), _, _) = one.tick(10.0, ())
    assert one.due == 0.0  # it waits for an answer
    one.acknowledge(nonce)
    assert one.due == 10.0 + SETTINGS.probe_s
    assert one.relay("other", Probe("b", 7), 10.0) is not None
    assert one.due == 10.0 + SETTINGS.probe_s
