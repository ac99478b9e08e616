"""Test tiers, what they need, and fixtures that all of them share.

A test is `unit` unless marked `kernel`, `vm` or `fleet`.  A reason to skip that starts with
NOT_HERE names something that this machine cannot have; any other skip is a gap in the
set-up, and fails the run where CI is set.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.real import RealHost

NOT_HERE = "not on this machine:"
TIERS = {"unit", "kernel", "vm", "fleet"}
KERNEL_LIMIT_S = 900
"""Many times what the longest kernel test takes: it ends what hangs, not what is slow."""

# No deadline: the machine may be busy, and how long a test takes is nobody's result.
settings.register_profile(
    "hostcc", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("quick", settings.get_profile("hostcc"), max_examples=10)
settings.load_profile("hostcc")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    root = os.geteuid() == 0
    for item in items:
        if not TIERS & {mark.name for mark in item.iter_markers()}:
            item.add_marker(pytest.mark.unit)
        if not item.get_closest_marker("kernel"):
            continue
        if not root:
            item.add_marker(pytest.mark.skip(reason="needs root"))
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(KERNEL_LIMIT_S))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if os.environ.get("CI", "").lower() not in {"1", "true", "yes"}:
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    gaps = [
        f"{report.nodeid}: {reason}"
        for report in reporter.stats.get("skipped", [])
        if not (reason := skip_reason(report.longrepr)).startswith(NOT_HERE)
    ]
    if gaps:
        reporter.write_line("")
        for gap in gaps:
            reporter.write_line(f"skipped although it could run here: {gap}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def skip_reason(longrepr: object) -> str:
    """The reason out of a skip report, which is a (file, line, text) triple."""
    text = str(longrepr[2]) if isinstance(longrepr, tuple) else str(longrepr)
    return text.removeprefix("Skipped: ")


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    """An agent that a test reloads configures the logs of the whole process."""
    logger = logging.getLogger("hostcc")
    before = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.level, logger.propagate = before


@pytest.fixture(scope="session")
def cgroup2() -> Path:
    """Where cgroup v2 is mounted; on hybrid hosts that is not /sys/fs/cgroup."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(where)
    pytest.skip(f"{NOT_HERE} cgroup v2")


@pytest.fixture
def cgroup(cgroup2: Path) -> Iterator[Path]:
    """A fresh cgroup v2, removed afterwards; the test empties it."""
    path = cgroup2 / f"hostcc-test-{uuid.uuid4().hex[:8]}"
    path.mkdir()
    yield path
    path.rmdir()


@pytest.fixture
def host(tmp_path: Path, cgroup2: Path) -> Iterator[RealHost]:
    """A host with namespaces of its own, of whose agents nothing is left in the kernel."""
    made = RealHost(tmp_path, cgroup2)
    yield made
    made.close()
    assert made.ours() == set()
