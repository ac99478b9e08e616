"""The plan in shared memory: layout, bounds, and what the C side makes of it."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.errors import InputError
from hostcc.pcie.library import HERE as PCIE_HERE
from hostcc.system.cc import build
from hostcc.verbs import plan_region, ports, queue_pair_bins
from hostcc.verbs.build import HERE, NCCL_ENV
from hostcc.verbs.plan_region import (
    BurstGate,
    CountEntry,
    CountsEntry,
    GateEntry,
    Header,
    JobEntry,
    Pacing,
    PathEntry,
    PlanRegion,
    RdmaJob,
    gid_of,
)
from hostcc.verbs.queue_pair_bins import BinsEntry, SeriesEntry

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    build(NCCL_ENV)


@pytest.fixture
def path() -> Iterator[Path]:
    place = Path(f"/dev/shm/hostcc-test-plan-{os.getpid()}")
    yield place
    place.unlink(missing_ok=True)


def layout() -> tuple[int, ...]:
    """What the libraries' `hcc_plan_layout` has to say."""
    return (
        ctypes.sizeof(PathEntry), ctypes.sizeof(JobEntry), ctypes.sizeof(Header),
        Header.beat.offset, Header.generation.offset, Header.long_bytes.offset,
        CountEntry.longest.offset, CountEntry.errors.offset, CountEntry.completed.offset,
        CountEntry.busy_ns.offset, CountEntry.open_ns.offset, JobEntry.name.offset,
        JobEntry.traffic_class.offset, JobEntry.rate.offset, JobEntry.f_milli.offset,
        JobEntry.path.offset, PathEntry.ports.offset, PathEntry.count.offset,
        PathEntry.flags.offset,
        JobEntry.gates.offset, JobEntry.gate.offset,
        JobEntry.closed_until_ns.offset, JobEntry.burst_silence_ns.offset, ctypes.sizeof(GateEntry),
        ctypes.sizeof(CountEntry), ctypes.sizeof(CountsEntry),
        CountsEntry.iterations.offset, CountsEntry.qp.offset,
        CountEntry.bytes.offset, CountEntry.dgid.offset, CountEntry.device.offset,
        CountsEntry.iteration.offset, CountsEntry.left_alone.offset,
        CountsEntry.burst.offset, CountsEntry.held_ns.offset,
        ctypes.sizeof(SeriesEntry), ctypes.sizeof(BinsEntry),
        SeriesEntry.newest.offset, SeriesEntry.dgid.offset, SeriesEntry.device.offset,
        BinsEntry.rows.offset, BinsEntry.left_out.offset, BinsEntry.row.offset,
        queue_pair_bins.VERSION, queue_pair_bins.BIN_SHIFT, queue_pair_bins.RING,
        queue_pair_bins.LATE, queue_pair_bins.RINGS_AT,
        plan_region.VERSION, plan_region.MAX_JOBS, plan_region.NAME_BYTES, plan_region.PATHS,
        plan_region.PORTS, plan_region.F_POINTS, plan_region.QPS, plan_region.GATES,
        plan_region.DEVICE_BYTES, plan_region.BACK,
    )  # fmt: skip


def test_layout_is_the_librarys() -> None:
    library = ctypes.CDLL(str(NCCL_ENV.target))
    wanted = layout()
    found = (ctypes.c_uint32 * (len(wanted) + 1)).in_dll(library, "hcc_plan_layout")
    assert (*wanted, 0) == tuple(found)
    assert f"HCC_RDMA_MAGIC {plan_region.MAGIC:#x}ull" in (HERE / "plan.h").read_text()
    assert (PCIE_HERE / "semaphore.h").exists()


def test_the_layouts_of_version_3_stay_as_they_are() -> None:
    """Agents and shims of the release before read them: what is new goes into a file of its own, or
    has another version."""
    assert plan_region.VERSION == 3
    sizes = [ctypes.sizeof(one) for one in (Header, JobEntry, CountEntry, CountsEntry)]
    assert sizes == [64, 2064, 128, 131264]
    fields = [name for name, *_ in CountEntry._fields_]
    assert [getattr(CountEntry, name).offset for name in fields] == [
        0, 4, 8, 12, 16, 20, 24, 32, 40, 56, 84, 88, 92, 96, 104, 112, 120
    ]  # fmt: skip


@given(st.integers(ports.FIRST, ports.LAST))
def test_every_port_has_a_label(port: int) -> None:
    label = ports.label_of(port)
    assert 0 < label <= 0xFFFFF
    assert ports.port_of(label) == port


def test_ports_outside_are_refused() -> None:
    for port in (0, ports.FIRST - 1, ports.LAST + 1):
        with pytest.raises(InputError):
            ports.label_of(port)


@pytest.mark.parametrize(
    "job",
    [
        RdmaJob("a b"),
        RdmaJob("a", traffic_class=0x69),
        RdmaJob("a", traffic_class=256),
        RdmaJob("a", ports=(("x", (50000,)),)),
        RdmaJob("a", ports=(("198.18.0.1", (80,)),)),
        RdmaJob("a", ports=(("198.18.0.1", (50000,) * 9),)),
        RdmaJob("a", ports=(("198.18.0.1", (50000,)),) * 33),
        RdmaJob("a", pacing=Pacing(1e9, 100, (1.0,))),
        RdmaJob("a", pacing=Pacing(0, 100, (1.0,) * 33)),
        RdmaJob("a", level=8),
        RdmaJob("a", gates=(("d" * 28, 0),)),
        RdmaJob("a", gates=(("d", 64),)),
        RdmaJob("a", gates=(("d", 0),) * 17),
    ],
)
def test_bad_wishes_are_refused(job: RdmaJob, path: Path) -> None:
    region = PlanRegion.create(path, jobs=2)
    before = path.read_bytes()
    with pytest.raises(InputError):
        region.publish([RdmaJob("good"), job])
    assert path.read_bytes() == before  # nothing half applied


def test_gids() -> None:
    assert gid_of("198.18.0.1").hex() == "00000000000000000000ffffc6120001"
    assert gid_of("::ffff:198.18.0.1") == gid_of("198.18.0.1")


def test_what_has_happened_to_the_file(path: Path) -> None:
    region = PlanRegion.create(path, jobs=1)
    assert region.problem() == ""
    path.chmod(0o666)
    assert region.problem() == "others may write it"
    path.rename(path.with_name(f"{path.name}-moved"))
    assert region.problem() == "No such file or directory"
    path.write_bytes(b"somebody's")
    assert region.problem() == "another file"
    region.close()
    assert path.read_bytes() == b"somebody's"  # not ours to remove
    path.with_name(f"{path.name}-moved").unlink()


def test_a_gate_is_beside_the_entry_of_its_job(path: Path) -> None:
    """Written at any time; another entry for the job leaves it, the end of the job opens it."""
    region = PlanRegion.create(path, jobs=2)
    gate = BurstGate(closed_until_ns=5, period_ns=7, silence_ns=3)
    assert not region.set_gate("a", gate)
    region.publish([RdmaJob("a"), RdmaJob("b")])
    assert region.gate("a") is None
    before = region._header.generation
    assert region.set_gate("a", gate)
    assert (region.gate("a"), region.gate("b")) == (gate, None)
    assert region._header.generation == before
    assert region.altered() == []
    region.publish([RdmaJob("a", 0x20), RdmaJob("b")])
    assert region.gate("a") == gate
    region.publish([RdmaJob("b")])
    assert region.gate("a") is None
    assert not region.set_gate("a", gate)
    region.publish([RdmaJob("b"), RdmaJob("c")])
    assert region.gate("c") is None
    region.set_gate("b", gate)
    region.set_gate("b", None)
    assert region.gate("b") is None
    region._jobs[1].level = 3
    assert region.altered() != []
    region.close()


def test_only_plans_are_removed(path: Path) -> None:
    path.write_bytes(b"somebody's own file")
    assert not plan_region.remove(path)
    assert path.exists()
    PlanRegion.create(path, jobs=1)
    assert plan_region.remove(path)
    assert not path.exists()
    assert not plan_region.remove(path)


def test_a_heartbeat_that_comes_while_a_job_looks(tmp_path: Path) -> None:
    """It is of after the look at the clock, which is no sign of garbage (native/alive.c)."""
    program = tmp_path / "alive"
    subprocess.run(
        ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{HERE}", "-o", str(program),
         str(Path(__file__).parent / "native/alive.c")],
        check=True,
    )  # fmt: skip
    done = subprocess.run([program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "good\n"
