"""Crux's clusters on a trace of half an hour: what is compared, kept and fitted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from benchmarks.evidence import cluster_cases, registry
from benchmarks.evidence.cluster_cases import Calibration, Case
from benchmarks.evidence.document import Evidence, Request
from benchmarks.evidence.studies import crux_cluster
from hostcc.cli.main import main
from hostcc.errors import InputError
from tests.sim.hand_made_trace import write_hand_made

pytestmark = pytest.mark.unit

DAYS = 0.02
FREE = Calibration(100.0, 1.0, 1)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    folder.mkdir()
    write_hand_made(folder)

    @contextmanager
    def there(request: Request) -> Iterator[str]:
        yield str(folder)

    monkeypatch.setattr(cluster_cases, "_trace_folder", there)
    monkeypatch.setattr(cluster_cases, "WORKERS", 1)
    monkeypatch.setattr(crux_cluster, "DAYS", DAYS)
    monkeypatch.setattr(crux_cluster, "QUICK_DAYS", DAYS)


def found(name: str, out: Path | None = None, *, fit: bool = False) -> Evidence:
    return registry.every()[name].run(Request(quick=False, out=out, fit=fit))


def test_bars_are_compared_and_only_two_are_fitted() -> None:
    lines = found("crux-23").lines
    bars = [one for one in lines if one.published is not None and "utilisation" in one.figure]
    assert len(bars) == 12
    assert [one.figure for one in bars if one.kind == "fitted"] == [
        "utilisation, Sincronia",
        "utilisation, Crux-full",
    ]
    assert all(0 < one.here <= 1 for one in bars)
    sensitivity = [one for one in lines if one.setting.startswith("sensitivity")]
    assert len(sensitivity) >= 2 * 6
    assert [one.bar for one in lines if one.figure == "hostcc above Crux-full"] == [
        "not below by more than 0.002"
    ] * 2


def test_the_other_studies_have_their_published_figures() -> None:
    over_time = {one.figure: one.published for one in found("crux-24").lines}
    assert over_time["mean over time, Sincronia"] == pytest.approx(0.243, abs=0.002)
    assert over_time["mean over time, Crux-full"] == pytest.approx(0.534, abs=0.002)
    placed = {(one.setting, one.figure): one.published for one in found("crux-25").lines}
    assert placed["Fig. 25, placement HiveD", "utilisation, with Crux"] == 0.75
    assert placed["Fig. 25, placement HiveD", "utilisation, with hostcc"] is None
    assert len(placed) == 9
    assert {one.setting for one in found("crux-fairness").lines} == {
        "Clos, crux-full",
        "Clos, hostcc",
    }


def test_finished_replays_are_kept_and_used_again(tmp_path: Path) -> None:
    done: list[float] = []
    request = Request(out=tmp_path, tell=lambda what, now, whole: done.append(now))
    cases = [Case(who, FREE, days=DAYS) for who in ("ecmp", "alone")]
    first = cluster_cases.results(cases[:1], request)
    both = cluster_cases.results(cases, request)
    assert both[cases[0]] == first[cases[0]]  # with its seconds: it was not run again
    assert done == [0, 1, 1, 2]
    assert len(list((tmp_path / "cluster").glob("*.json"))) == 2


def test_results_do_not_depend_on_the_number_of_workers() -> None:
    cases = [Case(who, FREE, days=DAYS) for who in ("ecmp", "hostcc")]
    one, two = (cluster_cases.results(cases, Request(), workers) for workers in (1, 2))
    assert {case: kept.figures for case, kept in one.items()} == {
        case: kept.figures for case, kept in two.items()
    }


def test_a_fit_writes_the_numbers_that_come_nearest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crux_cluster, "UPLINKS", (50.0, 200.0))
    monkeypatch.setattr(crux_cluster, "SCALES", (1.0, 100.0))
    monkeypatch.setattr(crux_cluster, "QUEUE_PAIRS", (1,))
    notes = found("crux-23", tmp_path, fit=True).notes
    assert "fitted on 4 points" in notes[0]
    request = Request(out=tmp_path)
    wanted = {"sincronia": 0.39, "crux-full": 0.62}
    grid = [Calibration(rate, scale, 1) for rate in (50.0, 200.0) for scale in (1.0, 100.0)]
    cases = [Case(who, free, days=DAYS) for free in grid for who in wanted]
    kept = cluster_cases.results(cases, request)  # all are there
    off = [
        sum(
            (kept[Case(who, free, days=DAYS)].figures["utilisation"] - bar) ** 2
            for who, bar in wanted.items()
        )
        for free in grid
    ]
    assert max(off) > min(off)
    chosen = cluster_cases.calibration(request)
    assert off[grid.index(chosen)] == min(off)
    assert f"traffic times {chosen.scale:g}," in notes[1]


def test_numbers_are_halved_and_doubled() -> None:
    words = dict(cluster_cases.halved_and_doubled(Calibration(100.0, 2.0, 4)))
    assert words["half uplink_gbit"] == Calibration(50.0, 2.0, 4)
    assert words["twice queue_pairs"] == Calibration(100.0, 2.0, 8)
    assert len(words) == 6
    assert len(cluster_cases.halved_and_doubled(FREE)) == 5  # half a queue pair is none


@pytest.mark.parametrize("data", [b"scale = -1\n", b"\xff", b"queue_pairs = 1" + b"0" * 5000, b""])
def test_a_damaged_calibration_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "calibration.toml").write_bytes(data)
    with pytest.raises(InputError, match=r"calibration\.toml: .*expected "):
        cluster_cases.calibration(Request(out=tmp_path))
    cluster_cases.write(FREE, tmp_path, "a test")
    assert cluster_cases.calibration(Request(out=tmp_path)) == FREE
    assert msgspec.to_builtins(FREE)["queue_pairs"] == 1


def test_only_who_has_free_numbers_can_be_fitted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evidence", "crux-11-15", "--fit"]) != 0
    assert "--fit: expected it with crux-23" in capsys.readouterr().err
