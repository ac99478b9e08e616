"""Crux's testbed, in the quick form: few seconds of the first setting."""

from __future__ import annotations

import pytest

from benchmarks.evidence.studies import crux_testbed
from benchmarks.evidence.testbed_jobs import across, alone, run
from tests.benchmarks.evidence.found import line, quick

pytestmark = pytest.mark.unit

SETTINGS = {"crux-19": "Fig. 19, n = 2", "crux-20": "Fig. 20",
            "crux-21": "Fig. 21, n = 1", "crux-22": "Fig. 22, n = 8"}  # fmt: skip


@pytest.mark.parametrize(("name", "setting"), SETTINGS.items())
def test_crux_is_between_no_schedule_and_the_ideal(name: str, setting: str) -> None:
    without, crux, ideal = (
        line(name, setting, f"utilisation, {bar}").here for bar in ("without", "Crux", "ideal")
    )
    assert without < crux <= ideal + 1e-9


@pytest.mark.parametrize("figure", crux_testbed.FIGURES, ids=lambda figure: figure.name)
def test_the_ideal_is_that_of_the_jobs_alone(figure: crux_testbed.Figure) -> None:
    for n in figure.settings:
        jobs = figure.jobs(n)
        gpus = sum(job.gpus for job in jobs)
        wanted = sum(job.gpus * alone(figure.shares[job.model]) for job in jobs) / gpus
        assert run(jobs, figure.shares, "alone", 1, 5.0).utilisation == pytest.approx(wanted)
        if n == figure.fitted:
            published = crux_testbed._published(figure.number + "a")[n, "ideal"]
            assert wanted == pytest.approx(published, abs=0.005)


def test_only_the_bars_of_one_setting_are_fitted() -> None:
    kinds = {
        name: {one.kind for one in quick(name).lines if one.figure.startswith("utilisation, C")}
        for name in SETTINGS
    }
    assert kinds == {
        "crux-19": {"fitted"},
        "crux-20": {"predicted"},
        "crux-21": {"predicted"},
        "crux-22": {"fitted"},
    }


def test_no_host_has_more_gpus_or_nics_in_use_than_it_has() -> None:
    for figure in crux_testbed.FIGURES:
        for n in figure.settings:
            used = [0] * 12
            for job in figure.jobs(n):
                for host in job.hosts:
                    used[host] += job.gpus // len(job.hosts)
            assert max(used) <= 8
    assert across("BERT", 16, (0, 1)).nics == (0, 1, 2, 3)
