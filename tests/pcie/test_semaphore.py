"""Semaphores: order, bounds, deaths, garbage, and every interleaving of their steps."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from hostcc.errors import HostccError, InputError
from hostcc.pcie import exercise, handout, layout
from hostcc.pcie.library import HERE, PCIE
from hostcc.pcie.semaphore import Semaphore, Semaphores, Settings
from hostcc.system.cc import build
from tests.patience import until

pytestmark = [pytest.mark.unit, pytest.mark.slow]
NATIVE = Path(__file__).parent / "native"
QUIET = Settings(linger_s=0.0)
"""Levels do not linger: order is all that is left."""


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    build(PCIE)


@pytest.fixture
def path() -> Iterator[Path]:
    place = Path(f"/dev/shm/hostcc-test-{os.getpid()}")
    yield place
    place.unlink(missing_ok=True)


def turn_of(member: Semaphore, name: str, order: list[str]) -> threading.Thread:
    """A thread that takes one turn and says so."""

    def body() -> None:
        assert member.enter()
        order.append(name)
        member.leave()

    thread = threading.Thread(target=body)
    thread.start()
    return thread


def wait_until_waiting(region: Semaphores, count: int) -> None:
    until(lambda: region.states()[0].waiting >= count, f"{count} that wait")


def test_higher_levels_first_and_first_come_in_a_level(path: Path) -> None:
    slow = replace(QUIET, aging_s=0.0, patience_s=10.0, lease_s=10.0)
    with Semaphores.create([("a", slow)], path) as region:
        holder = region.join(0, 0)
        assert holder.enter()
        order: list[str] = []
        threads = []
        members = []
        for count, (name, level) in enumerate([("d", 5), ("b1", 2), ("b2", 2), ("a", 1)], 1):
            members.append(region.join(0, level))
            threads.append(turn_of(members[-1], name, order))
            wait_until_waiting(region, count)
        holder.leave()
        for thread in threads:
            thread.join()
        assert order == ["a", "b1", "b2", "d"]
        for member in [holder, *members]:
            member.close()
        assert region.states()[0].pids == ()


def test_who_waits_rises(path: Path) -> None:
    """A waiter of level 3 passes one of level 0 that came later."""
    eager = replace(QUIET, aging_s=0.001, patience_s=10.0, lease_s=10.0)
    with Semaphores.create([("a", eager)], path) as region:
        holder, low, high = (region.join(0, level) for level in (0, 3, 0))
        assert holder.enter()
        order: list[str] = []
        threads = [turn_of(low, "low", order)]
        wait_until_waiting(region, 1)
        time.sleep(0.05)
        threads.append(turn_of(high, "high", order))
        wait_until_waiting(region, 2)
        holder.leave()
        for thread in threads:
            thread.join()
        assert order == ["low", "high"]


def test_a_level_lingers(path: Path) -> None:
    """After the higher level's last message the lower one waits, but not for ever."""
    with Semaphores.create([("a", Settings(linger_s=0.05, aging_s=0.0))], path) as region:
        high, low = region.join(0, 0), region.join(0, 1)
        assert high.enter()
        high.leave()
        left = time.monotonic()
        assert high.enter()  # its own level does not wait
        high.leave()
        assert low.enter()
        assert time.monotonic() - left >= 0.05
        low.leave()


def test_makes_way_at_boundaries(path: Path) -> None:
    with Semaphores.create([("a", replace(QUIET, granule=100, aging_s=0.0))], path) as region:
        first, equal, higher = (region.join(0, level) for level in (1, 1, 0))
        order: list[str] = []
        assert first.enter()
        thread = turn_of(equal, "equal", order)
        wait_until_waiting(region, 1)
        assert first.boundary(50)  # less than a granule: goes on
        assert order == []
        assert first.boundary(50)
        thread.join()
        assert order == ["equal"]
        thread = turn_of(higher, "higher", order)
        wait_until_waiting(region, 1)
        assert first.boundary(1)
        thread.join()
        assert order == ["equal", "higher"]
        first.leave()


def test_nobody_waits_beyond_its_patience(path: Path) -> None:
    impatient = replace(QUIET, patience_s=0.02, lease_s=10.0)
    with Semaphores.create([("a", impatient)], path) as region:
        holder, other = region.join(0, 0), region.join(0, 0)
        assert holder.enter()
        began = time.monotonic()
        assert not other.enter()
        assert time.monotonic() - began >= 0.02
        assert region.states()[0].given_up == 1
        holder.leave()
        assert other.enter()
        other.leave()


def test_a_silent_holder_loses_the_link(path: Path) -> None:
    with Semaphores.create([("a", replace(QUIET, lease_s=0.02))], path) as region:
        holder, other = region.join(0, 0), region.join(0, 0)
        assert holder.enter()
        assert other.enter()
        assert region.states()[0].rescues == 1
        holder.leave()  # its late leaving takes nothing from the new owner
        assert other.boundary(1)
        other.leave()


def test_without_a_living_agent_nobody_waits(path: Path) -> None:
    with Semaphores.create([("a", QUIET)], path, stale_s=1.0) as region:
        holder, other = region.join(0, 0), region.join(0, 0)
        assert holder.enter()
        time.sleep(1.1)
        assert not other.enter()
        region.beat()
        holder.leave()
        assert other.enter()
        other.leave()


def test_room_and_refusals(path: Path) -> None:
    with Semaphores.create([("a", QUIET), ("b", QUIET)], path) as region:
        members = [region.join(1, 0) for _ in range(layout.CLIENTS)]
        with pytest.raises(HostccError):
            region.join(1, 0)
        members.pop().close()
        region.join(1, 0).close()
        for link, level in ((2, 0), (-1, 0), (0, layout.LEVELS)):
            with pytest.raises(InputError):
                region.join(link, level)
        with pytest.raises(InputError):
            region.set(0, replace(QUIET, lease_s=11))
    with pytest.raises(InputError):
        Semaphores.create([("x" * 48, QUIET)], path)
    with pytest.raises(InputError):
        Semaphores.create([], path)


def test_processes_of_other_pid_namespaces_take_no_room_for_ever(path: Path) -> None:
    """Nobody can tell which of them have died, so who took part least lately makes room; not who
    has the link, who waits, or one of this namespace that lives."""
    with Semaphores.create([("link", QUIET)], path) as region:
        members = [region.join(0, 0) for _ in range(layout.CLIENTS)]
        slots = region._links[0].slots
        elsewhere = slots[0].pidns + 1
        for index in (7, 8, 9, 10):  # number 1 each, as in pods
            slots[index].pid, slots[index].pidns = 1, elsewhere
        for member in (members[8], members[10]):  # uses the link, and later
            assert member.enter()
            member.leave()
        assert members[7].enter()  # has it
        region._links[0].waiting = 1 << 9
        more = [region.join(0, 0)]
        assert [slots[index].pid for index in (7, 8, 9, 10)] == [1, os.getpid(), 1, 1]
        more.append(region.join(0, 0))
        assert [slots[index].pid for index in (7, 8, 9, 10)] == [1, os.getpid(), 1, os.getpid()]
        with pytest.raises(HostccError, match="no room for more"):
            region.join(0, 0)
        members[7].leave()  # and sees that nobody waits for so long
        more.append(region.join(0, 0))
        assert [slots[index].pidns for index in (7, 9)] == [elsewhere, elsewhere - 1]
        for member in (*members, *more):
            member.close()


def test_what_is_no_region_is_refused(path: Path) -> None:
    with pytest.raises(HostccError):
        Semaphores.open(path)
    with Semaphores.create([("a", QUIET)], path), os.fdopen(handout.ask(path), "rb") as given:
        good = given.read()
    Semaphores(path, given_memory(good)).close()
    for bad in (b"", good[:-1], b"\0" * len(good), good[:12] + b"\xff" + good[13:]):
        with pytest.raises(InputError):
            Semaphores(path, given_memory(bad))
    with pytest.raises(HostccError):
        Semaphores.open(Path("/dev/null"))


@pytest.mark.parametrize("seals", [0, fcntl.F_SEAL_GROW, fcntl.F_SEAL_SHRINK])
def test_memory_that_can_be_cut_short_is_refused(path: Path, seals: int) -> None:
    """Whoever gave it could kill who maps it."""
    with Semaphores.create([("a", QUIET)], path), os.fdopen(handout.ask(path), "rb") as given:
        good = given.read()
    with pytest.raises(InputError):
        Semaphores(path, given_memory(good, seals))
    path.write_bytes(good)
    with path.open("r+b") as file, pytest.raises(InputError):
        Semaphores(path, os.dup(file.fileno()))


def test_who_has_the_memory_cannot_cut_it_short(path: Path) -> None:
    with Semaphores.create([("a", QUIET)], path) as region, region.join(0, 0) as member:
        fd = handout.ask(path)
        for size in (0, 1, 1 << 20):
            with pytest.raises(PermissionError):
                os.ftruncate(fd, size)
        for seals in (fcntl.F_SEAL_WRITE, fcntl.F_SEAL_SEAL):
            with pytest.raises(PermissionError):
                fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
        os.pwrite(fd, bytes(os.fstat(fd).st_size), 0)
        os.close(fd)
        member.enter()
        member.leave()
    assert not path.exists()


def test_the_memory_is_given_to_all_who_ask(path: Path) -> None:
    """One after the other, also while some come and go without a word."""
    with Semaphores.create([("a", QUIET)], path) as region:
        for _ in range(20):
            with socket.socket(socket.AF_UNIX) as hasty:
                hasty.connect(str(path))
        with Semaphores.open(path) as one, Semaphores.open(path) as two:
            one.join(0, 0)
            two.join(0, 0)
            assert len(region.states()[0].pids) == 2


def test_who_gives_up_again_and_again_waits_no_more_for_a_while(path: Path) -> None:
    """The rules are not being kept: somebody holds the link for ever.  After a respite it waits
    again."""
    stuck = replace(QUIET, patience_s=0.02, lease_s=10.0, aging_s=0.0)
    with Semaphores.create([("a", stuck)], path) as region:
        holder, other = region.join(0, 0), region.join(0, 0)
        assert holder.enter()
        for _ in range(200):
            assert not other.enter()
        assert 4 <= region.states()[0].given_up < 50
        holder.leave()
        assert other.enter()
        other.leave()


def given_memory(raw: bytes, seals: int = fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK) -> int:
    """A descriptor of it."""
    fd = os.memfd_create("given", os.MFD_ALLOW_SEALING)
    os.write(fd, raw)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


KILLED = """
import sys, time
from pathlib import Path
from hostcc.pcie.semaphore import Semaphores
with Semaphores.open(Path(sys.argv[1])) as region:
    member = region.join(0, int(sys.argv[2]))
    print("ready", flush=True)
    while True:
        member.enter()
        member.boundary(1)
        member.leave()
"""


def test_who_has_died_takes_part_no_more(path: Path) -> None:
    with Semaphores.create([("a", Settings())], path) as region:
        command = [sys.executable, "-c", KILLED, str(path), "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            assert region.states()[0].pids == (process.pid,)
            process.kill()
        assert region.states()[0].pids == ()
        slot = region._links[0].slots[0]
        slot.pidns += 1  # of another namespace nobody knows
        assert region.states()[0].pids == (process.pid,)


def test_killed_in_the_middle(path: Path) -> None:
    """Real processes die by SIGKILL wherever they are; who lives goes on at once."""
    rng = random.Random(1)
    with Semaphores.create([("a", replace(QUIET, aging_s=0.001, lease_s=10.0))], path) as region:
        survivor = region.join(0, 1)
        for _ in range(8):
            victims = [
                subprocess.Popen(
                    [sys.executable, "-c", KILLED, str(path), str(level)], stdout=subprocess.PIPE
                )
                for level in (0, 1, 2)
            ]
            for victim in victims:
                assert victim.stdout is not None
                assert victim.stdout.readline() == b"ready\n"
            for victim in victims:
                for _ in range(rng.randrange(20)):
                    assert survivor.enter()
                    survivor.leave()
                victim.send_signal(signal.SIGKILL)
                with victim:
                    victim.wait()
            assert survivor.enter()
            survivor.leave()
        assert survivor.enter()
        survivor.leave()
        assert region.states()[0].given_up == 0
        with region.join(0, 0):  # room of the dead is used again
            assert len(region.states()[0].pids) <= 4


def test_garbage_in_the_memory(path: Path) -> None:
    """Whatever stands in a link, calls return in time and touch nothing outside."""
    rng = random.Random(2)
    settings = replace(QUIET, patience_s=0.005)
    with Semaphores.create([("a", settings), ("b", settings)], path) as region:
        members = [region.join(0, level) for level in (0, 3)]
        size = ctypes.sizeof(layout.Link)
        first = region.link_address(0)
        other = region.link_address(1)
        before = ctypes.string_at(other, size)
        for _ in range(150):
            for _ in range(rng.randrange(1, 40)):
                at = rng.randrange(size - 8)
                raw = rng.choice([b"\xff" * 8, b"\0" * 8, rng.randbytes(8), b"\1" + b"\0" * 7])
                ctypes.memmove(first + at, raw, 8)
            # Patience is what the garbage says, up to 10 s: keep the test short.
            region.set(0, settings)
            for member in members:
                began = time.monotonic()
                member.enter()
                member.boundary(rng.getrandbits(64))
                member.leave()
                assert time.monotonic() - began < 30
        assert ctypes.string_at(other, size) == before
        region.states()


def test_layout_is_the_librarys() -> None:
    library = ctypes.CDLL(str(PCIE.target))
    wanted = layout.expected()
    found = (ctypes.c_uint32 * (len(wanted) + 1)).in_dll(library, "hcc_sem_layout")
    assert (*wanted, 0) == tuple(found)
    header = (HERE / "semaphore.h").read_text()
    assert f"HCC_SEM_MAGIC {layout.MAGIC:#x}ull" in header


def test_shares_of_an_emulated_link(path: Path) -> None:
    """Two jobs on a copy engine: the gated one waits for the other's gaps, and uses them."""
    engine = path.with_suffix(".engine")
    exercise.make_engine(engine)
    build(exercise.EXERCISE)
    try:
        with Semaphores.create([("a", Settings())], path):
            begin = time.monotonic_ns() + 1_500_000_000
            spec = exercise.Spec(
                str(path), engine=str(engine), rate=1e9, messages=100, start_ns=begin,
                compute_us=20_000, seconds=1.0,
            )  # fmt: skip
            jobs = [
                exercise.start("job", msgspec.structs.replace(spec, level=level, compute_us=gap))
                for level, gap in ((0, 20_000.0), (3, 0.0))
            ]
            sent = [
                msgspec.json.decode(exercise.answer(job), type=exercise.Sent).bytes for job in jobs
            ]
        # Alone the first sends 26 MB in 26 ms of each 46: with strict order about as much.
        assert sent[0] > sent[1] > 0
    finally:
        engine.unlink()


@pytest.mark.parametrize("sanitizer", ["", "-fsanitize=undefined -fno-sanitize-recover"])
def test_every_interleaving(sanitizer: str, tmp_path: Path) -> None:
    """Thousands of seeds: steps interleaved, holders killed and hung (native/interleave.c)."""
    program = tmp_path / "interleave"
    subprocess.run(
        ["gcc", "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", *sanitizer.split(),
         f"-I{HERE}", "-o", str(program), str(NATIVE / "interleave.c")],
        check=True,
    )  # fmt: skip
    seeds = 1000 if sanitizer else 4000
    done = subprocess.run([program, "1", str(seeds)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["seeds"] == seeds
    assert report["deaths"] > seeds / 10
    assert report["rescues"] > 0


def test_threads_and_sanitizer(tmp_path: Path) -> None:
    """The real thing under ThreadSanitizer: no data race between participants."""
    program = tmp_path / "stress"
    subprocess.run(
        ["gcc", "-std=gnu11", "-O1", "-g", "-fsanitize=thread", "-Wall", "-Wextra", "-Werror",
         f"-I{HERE}", "-pthread", "-o", str(program), str(NATIVE / "stress.c"),
         str(HERE / "semaphore.c"), str(HERE / "region.c")],
        check=True,
    )  # fmt: skip
    done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=120)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("not on this machine: address space that ThreadSanitizer can use")
    assert done.returncode == 0, done.stderr
