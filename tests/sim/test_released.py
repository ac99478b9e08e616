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
        ("topo.csv", "G1,P1", "G1,P/1", "topo.csv:2: PSW: expected a name without /"),
        ("worker.csv", "a,", "x" * 200_000 + ",", "worker.csv:2: .*field larger"),
    ],
)
def test_files_of_another_form(tmp_path: Path, name: str, old: str, new: str, words: str) -> None:
    write(tmp_path, [job(1)], [worker(1, "job1", "a")], HOSTS)
    text = (tmp_path / name).read_bytes().decode("utf-8-sig")
    (tmp_path / name).write_text(text.replace(old, new, 1), newline="")
    with pytest.raises(InputError, match=words) as caught:
        read_trace(tmp_path)
    assert "\n" not in str(caught.value)


def test_unknown_hosts_are_placed_in_the_pod_of_their_jobs(tmp_path: Path) -> None:
    jobs = [job(number) for number in range(1, 4)]
    workers = [
        worker(1, "job1", "c"),
        worker(2, "job1", "u"),
        worker(3, "job2", "a"),
        worker(4, "job2", "v"),
        worker(5, "job2", "w"),
        worker(6, "job3", "x"),
        worker(7, "job1", "v"),
        worker(8, "job2", "v"),
    ]
    hosts = [*HOSTS, *topo(("d", "P1", "S2"))]
    found = read_trace(write(tmp_path, jobs, workers, hosts)).hosts
    assert {host.address: host.tor for host in found if not host.known} == {
        "u": "P2/S1",
        "v": "P1/S2",
        "w": "P1/S1",
        "x": "P1/S2",
    }


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


NAMES = st.sampled_from(["job1", "job2", "", "x/y", "\x00", "é\n", '"', "a" * 300])
GOOD_TIMES = ["", "2023/7/15 00:47", "2023/7/15 00:48", "2023/7/15 1:00"]
TIMES = st.sampled_from([*GOOD_TIMES * 4, "1/1/1 0:00", "9999/12/31 23:59", "2023/7/15", "x"])
RESOURCES = st.one_of(
    st.sampled_from(
        ["", EIGHT, "null", "[]", "{}", "[" * 5000, "1e999", '{"nvidia.com/gpu": true}']
    ),
    st.integers(-5, 10**25).map(lambda count: f'{{"nvidia.com/gpu": "{count}"}}'),
    st.text(max_size=8),
)
ADDRESSES = st.sampled_from(["a", "b", "c", "", "u", "v", "\u202e"])
JOBS = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["1", "2", "3", "007"] * 4 + ["-1", "1e3", "9" * 30]),
        "job_name": NAMES,
        "status": st.sampled_from(["Running", "Stopped", ""]),
        "gmt_job_submitted": TIMES,
        "gmt_job_running": TIMES,
        "gmt_job_stopped": TIMES,
        "gmt_job_finished": TIMES,
    }
)
WORKERS = st.fixed_dictionaries({"job_name": NAMES, "host_ip": ADDRESSES, "RES": RESOURCES})
SWITCHES = st.fixed_dictionaries(
    {"ip": ADDRESSES, "PSW": st.sampled_from(["P1", "P2", "", "P/1"]), "ASW": NAMES}
)


@given(
    jobs=st.lists(JOBS, max_size=5),
    workers=st.lists(WORKERS, max_size=6),
    hosts=st.lists(SWITCHES, max_size=3),
)
def test_hostile_fields_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory,
    jobs: list[dict[str, str]],
    workers: list[dict[str, str]],
    hosts: list[dict[str, str]],
) -> None:
    folder = write(tmp_path_factory.mktemp("hostile"), jobs, workers, hosts)
    try:
        found = read_trace(folder)
    except InputError as error:
        assert "\n" not in str(error)
        return
    assert found.rows["job"] == len(jobs) == len(found.jobs) + sum(found.left_out.values())
    assert len({one.name for one in found.jobs}) == len(found.jobs)
    for one in found.jobs:
        assert one.gpus >= max(1, sum(gpus for _, gpus in one.hosts))
        assert all(0 <= host < len(found.hosts) for host, _ in one.hosts)
        assert 0 <= one.end - one.start <= 366 * 24 * 60
    addresses = {row["host_ip"] for row in workers} | {row["ip"] for row in hosts}
    assert {host.address for host in found.hosts} == addresses - {""}
