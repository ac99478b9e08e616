"""When the kernel is told by what iterations end, and when that is taken back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from hostcc.daemon.profiling import boundary_hints
from hostcc.daemon.profiling.boundary_hints import KEPT_S, RENEW_S, SURE, BoundaryHints, is_same
from hostcc.daemon.profiling.tracks import Track
from hostcc.measure.history import history
from hostcc.model import BoundaryHint
from tests.daemon.profiling.hosts import ToyHost
from tests.measure.jobs import regular

pytestmark = pytest.mark.unit

HINT = BoundaryHint(0.24, 0.06, 0.02, 2e6, 2e5)


def sure(name: str = "a", start_ns: int = 0) -> Track:
    """A job of 30 iterations of 100 ms."""
    track = Track(name)
    track.take(regular(100, 30, start_ns=start_ns))
    track.analyse(track.collect())
    assert track.watch is not None
    assert track.watch.found.confidence > SURE
    return track


def measured_again(track: Track) -> None:
    assert track.watch is not None
    of = track.watch.series
    assert of is not None
    track.watch = replace(track.watch, series=history(of.whole()))


@dataclass
class Kernel:
    """What it was told."""

    hints: BoundaryHints = field(default_factory=BoundaryHints)
    told: list[tuple[str, BoundaryHint | None]] = field(default_factory=list)
    counted: bool = True

    def look(self, now_s: float, *tracks: Track) -> list[BoundaryHint | None]:
        """News of a look."""
        self.told.clear()
        self.hints.update(
            tracks,
            lambda _: self.counted,
            lambda _: (),
            lambda name, hint: self.told.append((name, hint)),
            now_s,
        )
        return [hint for _, hint in self.told]


def test_a_hint_is_told_once_and_renewed_when_it_is_measured_again() -> None:
    kernel, track = Kernel(), sure()
    (hint,) = kernel.look(1.0, track)
    assert hint is not None
    assert hint.period_s == pytest.approx(0.1, rel=0.01)
    assert hint.bytes == pytest.approx(40 * 500, rel=0.01)
    assert kernel.hints.hints() == {"a": hint}
    assert kernel.look(2.0, track) == []
    measured_again(track)
    assert kernel.look(1.0 + RENEW_S - 1, track) == []
    assert kernel.look(1.0 + RENEW_S + 1, track) == []  # nothing was measured since
    measured_again(track)
    assert kernel.look(1.0 + RENEW_S + 2, track) == [hint]


def test_a_job_of_which_nothing_is_known_has_none() -> None:
    kernel = Kernel()
    assert kernel.look(1.0, Track("a")) == []
    assert kernel.look(1.0 + 2 * KEPT_S, Track("a")) == []
    kernel.counted = False
    assert kernel.look(2.0, sure()) == []


def test_a_hint_outlives_its_pattern_for_a_while() -> None:
    """Jobs that meet on a link are learned anew again and again."""
    kernel, track = Kernel(), sure()
    (hint,) = kernel.look(1.0, track)
    assert kernel.look(500.0, track) == []  # it stays as long as its pattern
    learning = Track("a")
    assert kernel.look(501.0, learning) == []
    assert kernel.look(500.0 + KEPT_S - 1, learning) == []
    assert kernel.look(500.0 + KEPT_S, learning) == [None]
    assert kernel.hints.hints() == {}
    assert kernel.look(502.0 + KEPT_S, learning) == []
    assert kernel.look(503.0 + KEPT_S, track) == [hint]


def test_what_the_kernel_does_not_see_is_taken_back() -> None:
    kernel, track = Kernel(), sure()
    assert kernel.look(1.0, track)
    kernel.counted = False
    assert kernel.look(1.0 + KEPT_S, track) == [None]


def test_a_job_that_cannot_be_looked_at_costs_the_others_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken, fine = sure("a"), sure("b")
    monkeypatch.setattr(broken, "pattern", lambda _: None)
    kernel = Kernel()
    kernel.look(1.0, broken)
    assert broken.watch is None  # it is learned anew
    assert len(kernel.look(2.0, broken, fine)) == 1


def test_jobs_that_have_ended_are_forgotten() -> None:
    kernel = Kernel()
    assert len(kernel.look(1.0, sure("a"), sure("b"))) in (1, 2)
    kernel.hints.keep({"b"})
    assert "a" not in kernel.hints.hints()


def test_in_a_look_some_milliseconds_are_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boundary_hints, "SLICE_S", 0.0)
    kernel, tracks = Kernel(), [sure("a"), sure("b"), sure("c")]
    for number in range(1, 4):
        measured_again(tracks[0])  # all the time: the others have their turn all the same
        assert len(kernel.look(number, *tracks)) == 1
    assert kernel.hints.hints().keys() == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"period_s": 0.25}, True),
        ({"period_s": 0.28}, False),
        ({"silence_s": 0.07}, False),
        ({"pause_s": 0.019}, True),
        ({"bytes": 2.04e6}, True),
        ({"bytes": 2.1e6}, False),
        ({"margin_bytes": 0.0}, False),
    ],
)
def test_the_same_is_not_told_again(change: dict[str, float], same: bool) -> None:
    assert is_same(replace(HINT, **change), HINT) is same
    assert not is_same(HINT, None)
    assert is_same(None, None)


def test_the_table_knows_the_slot(tmp_path: Path) -> None:
    host = ToyHost(tmp_path)
    table = host.act()
    group = host.tree.root / "x"
    group.mkdir()
    table.follow("a", [group], "a test")
    slot = table.jobs["a"].slot
    table.set_boundary_hint("a", HINT)
    table.set_boundary_hint("stranger", HINT)
    assert host.engine.backend.hints == {slot: HINT}
    table.set_boundary_hint("a", None)
    assert host.engine.backend.hints == {}
