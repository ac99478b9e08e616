"""A recording gives the same figures each time."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np
import pytest

from hostcc.errors import InputError
from hostcc.measure import replay, series_file
from hostcc.measure.plain import circle, plain
from tests.measure.jobs import regular

pytestmark = pytest.mark.unit


def packed(values: object, kind: str) -> str:
    return base64.b64encode(np.asarray(values, kind).tobytes()).decode()


def answer(**over: object) -> dict[str, object]:
    made = regular(100, 40)
    sent: dict[str, object] = {
        "bin_ns": made.bin_ns,
        "start_ns": made.start_ns,
        "tx": packed(made.tx, "<i8"),
        "rx": packed(made.rx, "<i8"),
        "links": {"eth0": 1e9},
        "flop": 2e12,
        "busy_start_s": packed([0.0, 1.0], "<f8"),
        "busy_end_s": packed([1.0, 2.0], "<f8"),
        "busy": packed([0.5, np.nan], "<f8"),
    }
    return {**sent, **over}


def test_kept_and_analysed_again(tmp_path: Path) -> None:
    recording = replay.received("a", "here", answer())
    path = tmp_path / "a.npz"
    series_file.save(path, recording)
    first, again = replay.analyse(recording), replay.analyse(series_file.load(path))
    assert plain(first) == plain(again)
    assert circle(first) == circle(again)
    shown = plain(first)
    assert shown.period_s == pytest.approx(0.1, rel=0.01)
    assert shown.link_time_s == pytest.approx(8 * 20_000 / 1e9, rel=0.01)
    assert shown.link_time_s is not None
    assert shown.intensity == pytest.approx(2e12 / shown.link_time_s)


def test_of_several_links_none_has_a_time() -> None:
    both = answer(links={"eth0": 1e9, "eth1": 1e9})
    assert replay.analyse(replay.received("a", "", both)).link_time_s is None


@pytest.mark.parametrize(
    "over",
    [{"tx": "???"}, {"rx": packed([1], "<i8")}, {"bin_ns": 0}, {"links": {"a": -1.0}}, {"busy": 3}],
)
def test_nonsense_is_refused(over: dict[str, object]) -> None:
    with pytest.raises(InputError, match="expected a recording"):
        replay.received("a", "", answer(**over))
