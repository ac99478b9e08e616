"""Seeds of faults as cases: played once, in parts, whoever asks for which."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec
import pytest

from benchmarks import gossip_faults
from benchmarks.cases import Identity
from benchmarks.context import Context
from benchmarks.gossip_history import Outcome, speak
from hostcc import coord
from hostcc.coord.core import codec
from hostcc.coord.core.message import PROTOCOL, Message
from tests.coord.records import member

pytestmark = pytest.mark.unit


def asked(first: int, end: int) -> argparse.Namespace:
    return argparse.Namespace(seeds=(first, end), processes=1)


def fake(seed: int) -> Outcome:
    return Outcome(seed, 3 + seed % 2, settled_s=1.0 + seed % 7, trace=f"{seed:x}")


def test_other_code_of_the_core_is_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = tmp_path / "core" / "node.py"
    node.parent.mkdir()
    monkeypatch.setattr(coord, "__path__", [str(tmp_path)])
    identities = []
    for text in ("rounds = 1\n", "rounds = 2\n"):
        node.write_text(text)
        identities.append(gossip_faults.identity_of_code.__wrapped__())
    assert identities[0].definition == identities[1].definition
    assert identities[0].digest != identities[1].digest


def test_parts_do_not_depend_on_what_is_asked_for() -> None:
    size = gossip_faults.CHUNK
    assert list(gossip_faults.chunks(0, 2 * size)) == [range(size), range(size, 2 * size)]
    assert list(gossip_faults.chunks(5, size + 1)) == [range(5, size), range(size, size + 1)]


def test_an_interrupted_run_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[int] = []
    ends_at = [70]

    def play(seed: int) -> Outcome:
        if seed == ends_at[0]:
            raise KeyboardInterrupt
        played.append(seed)
        return fake(seed)

    monkeypatch.setattr(gossip_faults, "play", play)
    with pytest.raises(KeyboardInterrupt):
        gossip_faults.run(asked(0, 100), Context(1, tmp_path))
    reported = gossip_faults.run(asked(0, 100), Context(1, tmp_path, report_only=True))
    assert reported.title == "50 seeds of faults"
    assert reported.failures == ["seeds 50:100: not played"]
    del played[50:]
    ends_at[0] = -1
    found = gossip_faults.run(asked(0, 100), Context(1, tmp_path))
    assert played == list(range(100))
    assert found.met
    assert "slowest seeds: 6 (35 rounds)" in found.notes[1]
    alone = gossip_faults.record([fake(seed) for seed in range(100)])
    assert found.parameters["trace"] == alone.parameters["trace"]


def test_cases_of_another_state_of_the_core_are_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[int] = []

    def play(seed: int) -> Outcome:
        played.append(seed)
        return fake(seed)

    monkeypatch.setattr(gossip_faults, "play", play)
    gossip_faults.run(asked(0, 10), Context(1, tmp_path))
    before = gossip_faults.identity_of_code()
    changed = Identity(before.definition, "other")
    monkeypatch.setattr(gossip_faults, "identity_of_code", lambda: changed)
    gossip_faults.run(asked(0, 10), Context(1, tmp_path))
    assert played == [*range(10), *range(10)]


@pytest.mark.parametrize("protocol", [PROTOCOL - 1, PROTOCOL + 1])
def test_what_a_member_of_another_version_says_is_understood(protocol: int) -> None:
    message = Message(PROTOCOL, records=(member("a"),), pings=(7,))
    said = speak(protocol, codec.encode(message))
    assert said != codec.encode(message)
    assert codec.decode(said) == msgspec.structs.replace(message, protocol=protocol)
