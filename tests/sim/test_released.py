"""The reader of the released trace: counts, places, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.errors import InputError
from hostcc.sim.released import read_trace
from tests.sim.released_files import EIGHT, job, topo, worker, write

pytestmark = pytest.mark.unit

HOSTS = topo(("a", "P1", "S1"), ("b", "P1", "S1"), ("c", "P2", "S1"))


def test_a_trace(tmp_path: Path) -> None:
    jobs = [
        job(1),
        job(
            2,
            gmt_job_running="2023/7/15 00:46",
            gmt_job_finished="",
            gmt_job_stopped="2023/7/15 00:50",
        ),
        job(3, gmt_job_running="", gmt_job_finished=""),
        job(4, status="Running", gmt_job_finished=""),
        job(5, gmt_job_finished=""),
        job(6, gmt_job_running="2023/7/3 12:00"),
        job(7),
        job(8),
        job(9, gmt_job_finished="2023/7/15 00:46"),
        job(10, job_name="job1"),
        job(11, gmt_job_finished="2033/7/15 00:46"),
    ]
    workers = [
        worker(1, "job1", "a"),
        worker(2, "job1", "b"),
        worker(3, "job1", "", '{"nvidia.com/gpu": 1, "cpu": "500m"}'),
        worker(4, "job2", "c"),
        worker(5, "job2", "elsewhere", '{"nvidia.com/gpu": "32"}'),
        worker(6, "job8", "c", '{"cpu": "4"}'),
        worker(7, "job8", "c", ""),
        worker(8, "job8", "c", '{"nvidia.com/gpu": "many"}'),
        worker(9, "job8", "c", "[1"),
        worker(10, "nobody", "c"),
    ]
    (tmp_path / "one").mkdir()
    found = read_trace(write(tmp_path / "one", jobs, workers, HOSTS))
    early, late = found.jobs
    assert (early.name, early.start, early.end - early.start) == ("job2", late.start - 1, 4)
    assert late.start - late.submitted == 2
    assert late.end - late.start == 30
    assert (late.gpus, late.hosts) == (17, ((0, 8), (1, 8)))
    assert (early.gpus, early.hosts) == (40, ((2, 8), (3, 32)))
    assert [host.tor for host in found.hosts] == ["P1/S1", "P1/S1", "P2/S1", "P2/S1"]
    assert [host.known for host in found.hosts] == [True, True, True, False]
    assert found.left_out == {
        "never ran": 1,
        "still running": 1,
        "no end": 1,
        "start before submission": 1,
        "no worker": 1,
        "no GPU": 1,
        "end before start, or more than a year later": 2,
        "duplicate": 1,
    }
    assert found.rows["worker without resources"] == 3
    assert found.rows["worker on an unknown host"] == found.rows["worker beyond a host"] == 1
    (tmp_path / "two").mkdir()
    assert read_trace(write(tmp_path / "two", jobs, workers, HOSTS, shuffle=5)) == found


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        ("job.csv", "job_name", "name", r"job.csv:1: expected the column job_name once"),
        ("job.csv", "uid", "model", r"job.csv:1: expected the column model once"),
        ("job.csv", "2023/7/15 00:47", "yesterday", r"job.csv:2: gmt_job_running: expected YEAR"),
        ("job.csv", "2023/7/15 00:47", "2023/13/15 00:47", "gmt_job_running"),
        ("job.csv", "1,,job1", "x,,job1", "job.csv:2: id: expected a whole number, got 'x'"),
        ("job.csv", "1,,job1", "1,job1", "job.csv:2: expected 130 columns, got 129"),
        ("worker.csv", ",a,", ',"a,', "worker.csv:.*comma-separated"),
        ("topo.csv", "b,G1", "a,G1", "topo.csv:3: ip: expected each host once"),
    ],
)
def test_files_of_another_form(tmp_path: Path, name: str, old: str, new: str, words: str) -> None:
    write(tmp_path, [job(1)], [worker(1, "job1", "a")], HOSTS)
    text = (tmp_path / name).read_bytes().decode("utf-8-sig")
    (tmp_path / name).write_text(text.replace(old, new, 1), newline="")
    with pytest.raises(InputError, match=words) as caught:
        read_trace(tmp_path)
    assert "\n" not in str(caught.value)


def test_missing_and_binary_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"topo\.csv"):
        read_trace(tmp_path)
    write(tmp_path, [], [], HOSTS)
    assert read_trace(tmp_path).jobs == ()
    (tmp_path / "job.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        read_trace(tmp_path)


@given(cut=st.integers(0, 400), put=st.binary(max_size=8), file=st.integers(0, 2))
def test_damaged_files_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, cut: int, put: bytes, file: int
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    write(folder, [job(1), job(2)], [worker(1, "job1", "a", EIGHT)], HOSTS)
    path = folder / ("job.csv", "worker.csv", "topo.csv")[file]
    data = path.read_bytes()
    place = len(data) - cut
    path.write_bytes(data[: max(place, 0)] + put)
    try:
        read_trace(folder)
    except InputError as error:
        assert "\n" not in str(error)
