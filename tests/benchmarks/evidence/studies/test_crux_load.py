"""hostcc beside Crux-full, in the quick form: one load, one seed, one minute."""

from __future__ import annotations

import pytest

from benchmarks.evidence.studies import crux_load
from tests.benchmarks.evidence.found import line, quick

pytestmark = pytest.mark.unit

(FABRIC,) = crux_load.QUICK_FABRICS


def test_schedulers_gain_over_ecmp_under_overload() -> None:
    setting = f"{FABRIC}, traffic times 5"
    ecmp, crux, hostcc = (
        line("crux-load", setting, f"utilisation over alone, {one}").here for one in crux_load.WHO
    )
    assert 0 < ecmp < min(crux, hostcc) < 1


def test_gains_are_differences_of_the_same_seed() -> None:
    for words in ("", ", 20 % error, 20 s lag"):
        setting = f"{FABRIC}, traffic times 5{words}"
        crux, hostcc = (
            line("crux-load", setting, f"utilisation over alone, {one}").here
            for one in crux_load.WHO[1:]
        )
        for figure in ("mean", "least"):
            gain = line("crux-load", setting, f"hostcc above crux-full, {figure} of the seeds")
            assert gain.here == pytest.approx(hostcc - crux)
            assert gain.met == (gain.here >= crux_load.LEAST)
    assert {one.published for one in quick("crux-load").lines} == {None}


def test_traces_are_those_of_their_seeds() -> None:
    assert crux_load.trace(1, 2) == crux_load.trace(1, 2)
    assert crux_load.trace(1, 2) != crux_load.trace(2, 2)
