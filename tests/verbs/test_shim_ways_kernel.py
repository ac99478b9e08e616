"""Ways to start a program and to make another one, with the shim: the table of
docs/internals/shim.md.

Absent hardware: a stand-in for libibverbs (native/fake_verbs.c) is plain memory.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostcc.system.cc import build
from hostcc.verbs.build import SHIM, VERBS_HEADER
from hostcc.verbs.plan_region import PlanRegion, RdmaJob
from hostcc.verbs.process_counts import read_counts
from tests.patience import until
from tests.verbs.test_shim_native import (
    NATIVE,
    PATIENCE_S,
    compiled,
    end,
    places,
    program,
    start,
)
from tests.verbs.test_shim_odd import POSTS, SIZE, Odd, Places, compiled_odd, odd

__all__ = ["odd", "places", "program"]
pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(not VERBS_HEADER.exists(), reason="no libibverbs-dev; tools/setup gets it"),
]
NOBODY = 65534
PORT, CLASS = 50000, 0x20


@pytest.fixture(autouse=True)
def region(places: Places) -> Iterator[PlanRegion]:
    """An agent that lives and has a plan for the job."""
    made = PlanRegion.create(places[0], jobs=1, stale_s=60.0)
    made.publish([RdmaJob("job", CLASS, (("198.18.0.1", (PORT,)),))])
    yield made
    made.close()


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that everybody may look into, with the shim and the program `odd`."""
    with tempfile.TemporaryDirectory(prefix="hostcc-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        build(SHIM)
        compiled_odd(compiled(folder))
        shutil.copy(SHIM.target, folder)
        yield folder


@pytest.fixture(scope="module")
def ways(program: Path) -> Path:
    made = program.with_name("ways")
    subprocess.run(
        ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(made), str(NATIVE / "ways.c")],
        check=True,
    )  # fmt: skip
    return made


class Started:
    """`odd errno` of the job, however it is started; what it wrote."""

    def __init__(self, words: list[str], shim: Path, places: Places, uid: int = 0) -> None:
        plan, counts, semaphores = map(str, places)
        env = {
            "PATH": os.environ["PATH"], "LD_PRELOAD": str(shim), "HOSTCC_JOB": "job",
            "HOSTCC_RDMA_PLAN": plan, "HOSTCC_RDMA_COUNTS": counts,
            "HOSTCC_PCIE_SEMAPHORES": semaphores,
        }  # fmt: skip
        self.process = subprocess.Popen(
            [*words, "errno"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, user=uid, group=uid, extra_groups=[],
        )  # fmt: skip
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "connected\n"
        maps = Path(f"/proc/{self.process.pid}/maps").read_text()
        self.has_shim = SHIM.target.name in maps
        self.steered = any(one.pid == self.process.pid for one in read_counts(places[1]))

    def end(self) -> str:
        """Standard error of one that ended well."""
        with self.process:
            printed, errors = self.process.communicate("\n\n", timeout=120)
        assert (self.process.returncode, printed) == (0, "good\n")
        return errors


NET_BIND_SERVICE = struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0)
"""The attribute security.capability: version 2, effective, one capability permitted."""


@pytest.mark.parametrize("rights", ["Uid:", "Gid:", "CapEff:"])
def test_setuid_runs_as_without_the_shim(public: Path, places: Places, rights: str) -> None:
    """The loader takes no library from whoever starts a program that has more rights than he."""
    shim, plain, more = public / SHIM.target.name, public / "odd", public / "more"
    shutil.copy(plain, more)
    more.chmod({"Uid:": 0o4755, "Gid:": 0o2755}.get(rights, 0o755))
    if rights == "CapEff:":
        os.setxattr(more, "security.capability", NET_BIND_SERVICE)

    def said(process: int) -> list[str]:
        return Path(f"/proc/{process}/status").read_text().split(rights)[1].splitlines()[0].split()

    one = Started([str(plain)], shim, places, NOBODY)
    assert (one.has_shim, one.steered) == (True, True)
    usual = said(one.process.pid)
    assert one.end() == ""
    one = Started([str(more)], shim, places, NOBODY)
    if said(one.process.pid) == usual:
        one.end()
        pytest.skip("not on this machine: programs that get more rights where tests run")
    assert (one.has_shim, one.steered) == (False, False)
    assert one.end() == ""


def test_setuid_with_the_shim_as_a_dependency_makes_no_files(public: Path, places: Places) -> None:
    """The loader takes it there; the caller's environment names files, so none of it counts."""
    linked = public / "linked"
    subprocess.run(
        ["gcc", "-O2", "-pthread", "-o", str(linked), str(NATIVE / "odd.c"), "-Wl,--no-as-needed",
         str(public / SHIM.target.name), str(public / "libibverbs.so.1"), f"-Wl,-rpath,{public}"],
        check=True,
    )  # fmt: skip
    one = Started([str(linked)], Path("/nonexistent"), places, NOBODY)
    assert (one.has_shim, one.steered) == (True, True)
    one.end()
    linked.chmod(0o4755)
    one = Started([str(linked)], Path("/nonexistent"), places, NOBODY)
    status = Path(f"/proc/{one.process.pid}/status").read_text()
    if status.split("Uid:")[1].split()[1] != "0":
        one.end()
        pytest.skip("not on this machine: programs that get more rights where tests run")
    assert (one.has_shim, one.steered) == (True, False)
    assert one.end() == ""


@pytest.mark.parametrize("brings", ["library", "nothing"])
def test_chroot_runs_as_without_the_shim(public: Path, places: Places, brings: str) -> None:
    """There is no plan in it; without the library the loader says so, and goes on.

    What the library needs is part of glibc, so it is wherever glibc is.
    """
    root = public / "root"
    shim = public / SHIM.target.name
    listed = subprocess.run(
        ["ldd", public / "odd", shim], capture_output=True, text=True, check=True
    ).stdout
    found = {word for word in listed.split() if word.startswith("/") and word[-1] != ":"}
    needed = [Path(word) for word in sorted(found)]
    for path in [public / "odd", *needed, *([shim] if brings == "library" else [])]:
        place = root / path.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    words = ["chroot", str(root), str(public / "odd")]
    one = Started(words, shim, places)
    assert (one.has_shim, one.steered) == (brings == "library", False)
    errors = one.end()
    assert errors == "" or (brings == "nothing" and "cannot be preloaded" in errors)
    assert read_counts(places[1]) == ()


def test_static_runs_as_without_the_shim(tmp_path: Path, places: Places) -> None:
    """No loader, nobody who looks at LD_PRELOAD."""
    made = tmp_path / "static"
    subprocess.run(
        ["gcc", "-O2", "-static", "-pthread", "-o", str(made), str(NATIVE / "drive.c"),
         str(NATIVE / "fake_verbs.c")],
        check=True,
    )  # fmt: skip
    process = start(made, places, 0.2, 1)
    assert process.stdout is not None
    assert process.stdout.readline() == "\n"  # connected
    assert read_counts(places[1]) == ()
    report = end(process)
    assert report["posted"] == report["polled"] > 0
    assert (report["moves"], report["errors"]) == (0, 0)


def test_fork_leaves_the_parent_steered_and_the_child_alone(odd: Path, places: Places) -> None:
    one = Odd(odd, "fork", places)
    one.go()
    assert one.says() == "good"
    assert [count.pid for count in read_counts(places[1])] == [one.process.pid]
    found = one.count()
    assert found is not None
    (pair,) = found.qps
    assert (pair.port, pair.traffic_class, pair.bytes) == (PORT, CLASS, SIZE)  # its own post alone
    one.end()


@pytest.mark.parametrize("how", ["vfork", "posix_spawn"])
def test_vfork_leaves_the_parent_steered(ways: Path, places: Places, how: str) -> None:
    """Also the file of counters is there after the child has ended."""
    one = Odd(ways, f"{ways.with_name('libibverbs.so.1')} {how}", places)
    one.go()
    assert one.says() == "good"
    found = one.count()
    assert found is not None
    (pair,) = found.qps
    assert (pair.port, pair.traffic_class, pair.bytes) == (PORT, CLASS, POSTS * SIZE)
    one.end()


def test_threads_are_all_steered(program: Path, places: Places) -> None:
    process = start(program, places, PATIENCE_S, 4)
    seen: set[int] = set()

    def steered() -> bool:
        for one in read_counts(places[1]):
            seen.update(pair.qpn // 1000 for pair in one.qps if pair.port == PORT and pair.bytes)
        return len(seen) == 4 or process.poll() is not None

    until(steered, "four threads' queue pairs")
    process.terminate()
    assert end(process)["errors"] == 0
    assert seen == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("how", "steered"), [("dlvsym", True), ("dlsym", False), ("dlmopen", False)]
)
def test_dlopen_is_steered_where_functions_are_asked_for_by_version(
    ways: Path, places: Places, how: str, steered: bool
) -> None:
    """As NCCL does; who asks by name alone gets libibverbs' own, as without the shim."""
    one = Odd(ways, f"{ways.with_name('libibverbs.so.1')} {how}", places)
    found = one.count()
    pairs = [(pair.port, pair.traffic_class) for pair in found.qps] if found else []
    assert pairs == ([(PORT, CLASS)] if steered else [])
    one.go()
    assert one.says() == "good"
    one.end()
