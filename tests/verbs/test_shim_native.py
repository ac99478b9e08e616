"""The shim at full speed in front of a stand-in for libibverbs: garbage, threads, cost.

Absent hardware: the stand-in (native/fake_verbs.c) is plain memory; tests/vm has devices.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hostcc.pcie.semaphore import Semaphores, Settings
from hostcc.system.cc import build
from hostcc.verbs.build import SHIM, VERBS_HEADER
from hostcc.verbs.plan_region import Pacing, PlanRegion, RdmaJob
from hostcc.verbs.process_counts import read_counts

pytestmark = [
    pytest.mark.unit,
    pytest.mark.skipif(not VERBS_HEADER.exists(), reason="no libibverbs-dev; tools/setup gets it"),
    pytest.mark.slow,
]
NATIVE = Path(__file__).parent / "native"
THERE = "198.18.0.1"
PATIENCE_S = 120.0
"""A program that is to end before is told so."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    build(SHIM)
    return compiled(tmp_path_factory.mktemp("fake"))


def compiled(folder: Path) -> Path:
    """The stand-in for libibverbs, and the program `drive` beside it."""
    common = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror"]
    library = folder / "libibverbs.so.1"
    subprocess.run(
        [*common, "-shared", "-fPIC", "-Wl,-soname,libibverbs.so.1",
         f"-Wl,--version-script={NATIVE / 'fake_verbs.map'}", "-o", str(library),
         str(NATIVE / "fake_verbs.c")],
        check=True,
    )  # fmt: skip
    subprocess.run(
        [*common, "-pthread", "-o", str(folder / "drive"), str(NATIVE / "drive.c"), str(library),
         f"-Wl,-rpath,{folder}"],
        check=True,
    )  # fmt: skip
    return folder / "drive"


@pytest.fixture
def places() -> Iterator[tuple[Path, Path, Path]]:
    made = tuple(Path(f"/dev/shm/hostcc-test-{kind}-{os.getpid()}") for kind in ("p", "c", "s"))
    yield made[0], made[1], made[2]
    for path in [*made, *made[1].parent.glob(f"{made[1].name}*")]:
        path.unlink(missing_ok=True)


def start(
    program: Path,
    places: tuple[Path, Path, Path],
    seconds: float,
    threads: int,
    shim: Path = SHIM.target,
) -> subprocess.Popen[str]:
    plan, counts, semaphores = map(str, places)
    env = {
        **os.environ, "LD_PRELOAD": str(shim), "HOSTCC_JOB": "job", "HOSTCC_RDMA_PLAN": plan,
        "HOSTCC_RDMA_COUNTS": counts, "HOSTCC_PCIE_SEMAPHORES": semaphores,
    }  # fmt: skip
    return subprocess.Popen(
        [str(program), str(seconds), str(threads)], env=env, stdout=subprocess.PIPE, text=True
    )


def end(process: subprocess.Popen[str]) -> dict[str, Any]:
    with process:
        printed = process.communicate(timeout=120)[0]
    assert process.returncode == 0, process.returncode
    report: dict[str, Any] = json.loads(printed)
    return report


def test_without_an_agent_nothing_is_touched(
    program: Path, places: tuple[Path, Path, Path]
) -> None:
    report = end(start(program, places, 0.2, 2))
    assert report["moves"] == report["errors"] == 0
    assert read_counts(places[1]) == ()


@pytest.mark.parametrize("before", ["absent", "stale", "without this job"])
def test_a_queue_pair_that_connected_before_there_was_a_plan(
    program: Path, places: tuple[Path, Path, Path], before: str
) -> None:
    """As the program wants it until then; moved, counted and gated from then on."""
    region = PlanRegion.create(places[0], jobs=1) if before != "absent" else None
    if before == "stale":
        assert region is not None
        region._header.beat = 1
    process = start(program, places, PATIENCE_S, 1)
    assert process.stdout is not None
    assert process.stdout.readline() == "\n"  # connected
    time.sleep(0.3)
    assert read_counts(places[1]) == ()
    region = region or PlanRegion.create(places[0], jobs=1)
    region.publish([RdmaJob("job", 0x20, ((THERE, (50000,)),))])
    found: set[tuple[int, int, int, bool]] = set()
    while process.poll() is None and (50000, 0x20, 1, True) not in found:
        region.beat()
        for one in read_counts(places[1]):
            found |= {(qp.port, qp.traffic_class, qp.moves, qp.bytes > 0) for qp in one.qps}
        time.sleep(0.02)
    process.kill()
    process.communicate(timeout=60)
    assert (50000, 0x20, 1, True) in found


def test_moves_and_counts(program: Path, places: tuple[Path, Path, Path]) -> None:
    region = PlanRegion.create(places[0], jobs=1)
    process = start(program, places, PATIENCE_S, 2)
    seen: set[int] = set()
    change = 0
    while len(seen & {*range(51000, 52000)}) < 5 and process.poll() is None:
        region.beat()
        region.publish([RdmaJob("job", 0x20, ((THERE, (51000 + change, 52000)),))])
        time.sleep(0.1)
        change += 1
        for one in read_counts(places[1]):
            seen |= {qp.port for qp in one.qps}
            assert {qp.traffic_class for qp in one.qps} <= {0, 0x20}
            assert not any(qp.failed for qp in one.qps)
    process.terminate()
    report = end(process)
    assert report["moves"] > 0
    assert report["errors"] == 0  # only the one order that works
    assert read_counts(places[1]) == ()  # the file goes with the process


def test_a_gate_and_a_pace(program: Path, places: tuple[Path, Path, Path]) -> None:
    region = PlanRegion.create(places[0], jobs=1)
    with Semaphores.create([("link", Settings())], places[2]) as semaphores:
        # 4096-byte posts at 4.096 MB/s: one in a millisecond.
        pacing = Pacing(4.096e6, 1 << 40, (1.0,) * 33)
        region.publish([RdmaJob("job", pacing=pacing, level=2, gates=(("", 0),))])
        process = start(program, places, PATIENCE_S, 1)
        pids: set[int] = set()
        paced = 0.0
        while not (pids and paced > 0.01) and process.poll() is None:
            time.sleep(0.05)
            region.beat()
            pids |= set(semaphores.states()[0].pids)
            paced = max([paced, *(one.paced_s for one in read_counts(places[1]))])
        region.publish([])  # nobody plans for it any more: full speed
        process.terminate()  # it looks for that after each 1000 posts
        report = end(process)
    assert pids
    assert paced > 0.01
    assert report["posted"] >= 1000


def test_another_agent_goes_on_where_the_last_one_ended(
    program: Path, places: tuple[Path, Path, Path]
) -> None:
    """Plan and semaphores are new files: the process that runs takes them."""
    process, seen = None, []
    for life in range(2):
        region = PlanRegion.create(places[0], jobs=1)
        with Semaphores.create([("link", Settings())] * (life + 1), places[2]) as semaphores:
            region.publish([
                RdmaJob("job", 0x20 + 4 * life, level=1, gates=(("", life),))
            ])  # fmt: skip
            process = process or start(program, places, PATIENCE_S, 1)
            pids: tuple[int, ...] = ()
            classes: set[int] = set()
            while process.poll() is None:
                region.beat()
                classes = {qp.traffic_class for c in read_counts(places[1]) for qp in c.qps}
                pids = semaphores.states()[life].pids
                if 0x20 + 4 * life in classes and pids:
                    break
                time.sleep(0.02)
            seen.append((0x20 + 4 * life in classes, bool(pids)))
        del region  # as if killed: both files stay
    assert process is not None
    process.terminate()
    end(process)
    assert seen == [(True, True)] * 2


def test_garbage_in_both_regions(
    program: Path, places: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    """Also with a sanitizer, which ends the program at the first undefined behaviour."""
    checked = replace(
        SHIM,
        target=tmp_path / "checked.so",
        libraries=(*SHIM.libraries, "-fsanitize=undefined,bounds", "-fno-sanitize-recover"),
    )
    build(checked)
    rng = random.Random(5)
    for _ in range(6):
        region = PlanRegion.create(places[0], jobs=2)
        region.publish([RdmaJob("job", 0x20, ((THERE, (50000,)),), level=1, gates=(("", 0),))])
        with Semaphores.create([("link", Settings(patience_s=0.001))], places[2]) as semaphores:
            process = start(program, places, 0.5, 2, checked.target)
            until = time.monotonic() + 0.6
            plan, gate = memoryview(region._mapped), semaphores.link_address(0)
            while time.monotonic() < until:
                at = rng.randrange(0, 400)
                plan[at : at + 4] = rng.choice([b"\xff" * 4, bytes(4), rng.randbytes(4)])
                (semaphores._links[0]).owner = rng.choice([0, rng.getrandbits(64), 1 << 8 | 1])
                semaphores._links[0].waiting = rng.getrandbits(64)
                region._header.generation = rng.getrandbits(32)
            plan.release()
            assert gate
            report = end(process)
        assert report["posted"] == report["polled"] > 0


def test_an_idle_shim_is_not_in_the_way(program: Path, places: tuple[Path, Path, Path]) -> None:
    """Posts and polls of a program without a plan do not pass through the shim at all."""
    region = PlanRegion.create(places[0], jobs=1)
    region.publish([RdmaJob("somebody-else", 0x20)])
    process = start(program, places, 0.3, 1)
    report = end(process)
    assert report["errors"] == 0
    assert read_counts(places[1]) == ()
