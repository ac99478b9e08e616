"""The kill: latencies out of probes, and the judgement."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchmarks import mltcp_kill
from benchmarks.headings import columns
from benchmarks.mltcp_kill import Outcome
from benchmarks.socket_prober import Probe
from hostcc.lab import scenario

NAME = "hcc_1234_host"
GOOD = Outcome(
    connections=48,
    broken=0,
    before="hcc_*_host",
    after="cubic",
    default_after_s=0.01,
    accepted_after_s=0.02,
    gone_after_s=0.01,
    left_registered=0,
    programs_left=0,
    mean_before=1.0,
    mean_after=1.1,
)


def test_latencies_are_to_the_last_change() -> None:
    probes = [
        Probe(9.9, NAME, NAME, (NAME, "hcc_x_host")),
        Probe(10.1, "cubic", NAME, (NAME, "hcc_x_host")),
        Probe(10.2, NAME, NAME, ("hcc_x_host",)),
        Probe(10.3, "cubic", "cubic", ("hcc_x_host",)),
        Probe(10.4, "cubic", "cubic", ("hcc_x_host",)),
    ]
    found = mltcp_kill.latencies(probes, 10.0, frozenset({NAME}))
    assert found == pytest.approx((0.3, 0.3, 0.2))
    assert mltcp_kill.appeared(probes, 10.0, frozenset({"hcc_x_host"})) == {NAME}
    assert mltcp_kill.latencies(probes[:3], 10.0, frozenset())[0] is None
    assert mltcp_kill.latencies([], 10.0, frozenset()) == (None, None, None)


def test_a_socket_that_could_not_connect_has_no_default() -> None:
    probes = [Probe(10.1, "", "", ()), Probe(10.2, "cubic", "cubic", ())]
    assert mltcp_kill.latencies(probes, 10.0, frozenset())[0] == pytest.approx(0.2)


def test_goals() -> None:
    assert all(entry.met for entry in mltcp_kill.judge([GOOD, GOOD]))
    worse = msgspec.structs.replace(
        GOOD,
        broken=1,
        default_after_s=2.1,
        accepted_after_s=None,
        left_registered=1,
        programs_left=3,
    )
    assert not any(entry.met for entry in mltcp_kill.judge([worse]))


def test_the_watcher_joins_the_scenario(tmp_path: Path) -> None:
    base = scenario.load(scenario.find("two-jobs"))
    wanted = mltcp_kill.watched(base, tmp_path)
    assert [job.name for job in wanted.job] == ["job-a", "job-b", "watcher"]
    assert wanted.action[0].run == "kill-agent all"
    assert wanted.action[0].at_iteration == 30
    assert list(scenario.check(wanted)) == []


def test_outcomes_over_runs() -> None:
    other = msgspec.structs.replace(GOOD, default_after_s=0.03, after="reno")
    assert mltcp_kill.over_runs([GOOD, other], "after") == "cubic, reno"
    found = mltcp_kill.over_runs([GOOD, other], "default_after_s")
    assert not isinstance(found, str)
    assert found.greatest == pytest.approx(0.03)
    assert {one.key for one in columns(mltcp_kill.Outcome)} == set(Outcome.__struct_fields__)
