"""Generated traces have the published figures, and are the same for the same seed."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from hostcc.errors import HostccError
from hostcc.sim.fabrics import GBIT
from hostcc.sim.released import Rows, read_rows
from hostcc.sim.trace_description import Figure, describe
from hostcc.sim.trace_files import FILES, generate, write
from hostcc.sim.trace_generator import curve, published

pytestmark = [pytest.mark.unit, pytest.mark.slow]

NOT_REPRODUCED = {"worker rows", "worker rows on known hosts"}
MINUTES_OF_DAY = 1440


made = cache(generate)


@pytest.mark.parametrize("seed", [0, 1, 2**40])
def test_published_figures(tmp_path: Path, seed: int) -> None:
    write(made(seed), tmp_path)
    found = describe(tmp_path, 200 * GBIT, 200 * GBIT)
    figures = [one for own in found.groups.values() for one in own]
    assert sum(one.published is not None for one in figures) > 25
    assert [one for one in figures if not close(one)] == []
    gpus = {str(size): count for size, count in found.profile.gpus_per_job.items()}
    assert gpus == published()["gpus_per_job"]
    # The course over the days, and not only the mean.
    begin = int(found.timeline.minutes[0])
    for name, values in (("large_jobs", curve("large_jobs")), ("gpus", curve("active_gpus"))):
        spans = np.diff(found.timeline.minutes)
        minutes = np.repeat(found.timeline.values[name], spans)
        days = min(len(minutes), len(values)) // MINUTES_OF_DAY
        assert days >= 15
        here, there = (
            part[: days * MINUTES_OF_DAY].reshape(days, -1).mean(axis=1)
            for part in (minutes, values)
        )
        assert np.abs(here - there).mean() <= 0.06 * there.mean()
        assert np.corrcoef(here, there)[0, 1] > 0.97
    first = [job for job in found.trace.jobs if job.gpus >= 8 and job.start < begin + 1440]
    assert any(job.end > begin + MINUTES_OF_DAY for job in first)  # day 0 does not begin empty


def close(one: Figure) -> bool:
    if one.published is None or one.name in NOT_REPRODUCED:
        return True
    share = 0.1 if one.name.endswith("max") else 0.05
    return abs(one.value - one.published) <= share * one.published


def test_bursts_of_one_job() -> None:
    rows = made(0)
    again: dict[str, list[str]] = {}
    for row in rows.jobs:
        if row["job_name"].count("-") == 2 and not row["job_name"].startswith("dlc-running"):
            again.setdefault(row["job_name"].split("-")[1], []).append(row["model"])
    assert max(map(len, again.values())) >= 10
    assert all(len(set(models)) == 1 for models in again.values())


def test_another_process_makes_the_same_files(tmp_path: Path) -> None:
    here = [path.read_bytes() for path in write(made(0), tmp_path / "here")]
    subprocess.run(
        [sys.executable, "-m", "hostcc.cli", "sim", "generate", str(tmp_path / "there")],
        env=os.environ | {"PYTHONHASHSEED": "777"},
        check=True,
    )
    assert here == [(tmp_path / "there" / f"{name}.csv").read_bytes() for name in FILES]
    jobs = here[FILES.index("job")]
    assert jobs.startswith(b"\xef\xbb\xbfid,uid,job_name,")
    assert jobs.count(b"\r\n") == 5181
    assert b",Unnamed: 129\r\n" in jobs
    assert len(read_rows(tmp_path / "there").jobs) == 5180


def test_nothing_is_left_of_files_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        if "worker" in path.name:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return really(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(HostccError, match=r"worker\.csv.*: No space left"):
        write(Rows(Path(), (), (), ()), tmp_path / "made")
    assert list((tmp_path / "made").iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(HostccError, match=r"file: (Not a directory|File exists)"):
        write(Rows(Path(), (), (), ()), tmp_path / "file")
