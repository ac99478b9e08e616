"""A rolling upgrade: host after host gets a package whose scheduler plans otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.daemon.planning.upgrade_stage import JOBS, OTHER, UpgradeStage, jobs_of, package

pytestmark = pytest.mark.kernel

FIRST_HALF, SECOND_HALF = ("h1", "h2"), ("h3", "h4")


def test_no_job_is_marked_by_two_plans_during_a_rolling_upgrade(tmp_path: Path) -> None:
    """All that the agents say meanwhile is checked by UpgradeStage.look."""
    versions = dict.fromkeys(FIRST_HALF, "0.1.0") | dict.fromkeys(SECOND_HALF, "0.1.1")
    one_scheduler = {text: package(tmp_path / text, text) for text in set(versions.values())}
    other = package(tmp_path / OTHER, OTHER)
    environments = {name: one_scheduler[text] for name, text in versions.items()}
    with UpgradeStage(environments) as stage:
        # The version of the package does not count.
        stage.until(stage.agree, "all agree before the upgrade")
        for name, text in versions.items():
            assert stage.version(name) == text
        before = {job: stage.marks(job) for job in JOBS}

        for name in FIRST_HALF:
            stage.upgrade(name, other)

        def at_defaults() -> bool:
            """Whether every host knows that its jobs have two plans, and acts by none."""
            return all(
                now is not None
                and now.late == jobs_of(name)
                and not now.planned.keys() | now.marks.keys()
                for name, now in stage.said.items()
            )

        stage.until(at_defaults, "no job has a plan while its hosts differ")
        assert "plan differs from " in stage.client("h3", "status")

        def named() -> bool:
            """Whether an old host names those that have the other scheduler."""
            differs = {one["name"]: one["differs"] for one in stage.peers("h3")}
            return differs == {"h1": ["scheduler"], "h2": ["scheduler"], "h4": []}

        stage.until(named, "hosts with another scheduler are named")
        assert "scheduler differs: " in stage.client("h3", "peers")

        for name in SECOND_HALF:
            stage.upgrade(name, other)
        stage.until(stage.agree, "all agree after the upgrade")
        for name in versions:
            assert stage.version(name) == OTHER
        for job, marks in before.items():
            assert not stage.marks(job) & marks
        stage.finish()
