"""The shim in programs that do what few do: forks, cancelled threads, full queues, odd files.

Absent hardware: a stand-in for libibverbs (native/fake_verbs.c) is plain memory.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hostcc.pcie.semaphore import Semaphores, Settings
from hostcc.verbs.build import SHIM, VERBS_HEADER
from hostcc.verbs.plan_region import Pacing, PlanRegion, RdmaJob
from hostcc.verbs.process_counts import ProcessCount, read_counts
from hostcc.verbs.queue_pair_bins import BIN_SHIFT, RING, bin_files, open_bins
from tests.patience import until
from tests.verbs.dialogue import Dialogue
from tests.verbs.test_shim_native import NATIVE, places, program

__all__ = ["places", "program"]
pytestmark = [
    pytest.mark.unit,
    pytest.mark.skipif(not VERBS_HEADER.exists(), reason="no libibverbs-dev; tools/setup gets it"),
    pytest.mark.slow,
]
POSTS, SIZE = 40, 4096
CROWD = 8
"""Threads of it that post at once."""
Places = tuple[Path, Path, Path]


@pytest.fixture(scope="module")
def odd(program: Path) -> Path:
    return compiled_odd(program)


def compiled_odd(program: Path) -> Path:
    """The program `odd`, beside another one of the stand-in's."""
    made = program.with_name("odd")
    subprocess.run(
        ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", str(made),
         str(NATIVE / "odd.c"), str(program.with_name("libibverbs.so.1")),
         f"-Wl,-rpath,{program.parent}"],
        check=True,
    )  # fmt: skip
    return made


class Odd(Dialogue):
    """One of them, in job "job"."""

    def __init__(self, program: Path, what: str, places: Places, before: str = ":") -> None:
        plan, counts, semaphores = map(str, places)
        env = {
            **os.environ, "HOSTCC_JOB": "job", "HOSTCC_RDMA_PLAN": plan,
            "HOSTCC_RDMA_COUNTS": counts, "HOSTCC_PCIE_SEMAPHORES": semaphores,
        }  # fmt: skip
        script = f"{before}; LD_PRELOAD={SHIM.target} exec {program} {what}"
        self.process = subprocess.Popen(
            ["sh", "-c", script], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.counts = places[1]
        assert self.says() == "connected"

    def count(self) -> ProcessCount | None:
        return next((one for one in read_counts(self.counts) if one.pid == self.process.pid), None)

    def until(self, good: Callable[[ProcessCount], bool]) -> None:
        """It has such counters."""

        def has() -> bool:
            count = self.count()
            return count is not None and good(count)

        until(has, lambda: f"other counters than {self.count()}")

    def end(self) -> None:
        with self.process:
            self.process.communicate(timeout=60)  # no more lines: it ends
        assert self.process.returncode == 0
        assert self.count() is None


@pytest.fixture
def region(places: Places) -> Iterator[PlanRegion]:
    """Posts of 4 KiB take two milliseconds each."""
    made = PlanRegion.create(places[0], jobs=1, stale_s=60.0)
    slow = Pacing(SIZE / 2e-3, 1 << 40, (1.0,) * 33)
    made.publish([RdmaJob("job", 0x20, (("198.18.0.1", (50000,)),), slow)])
    yield made
    made.close()


def steered(places: Places) -> PlanRegion:
    """A plan with a path for the job."""
    plan = PlanRegion.create(places[0], jobs=1, stale_s=60.0)
    plan.publish([RdmaJob("job", 0x20, (("198.18.0.1", (50000,)),))])
    return plan


@pytest.mark.parametrize("what", ["errno", "cancel", "fork", "full"])
def test_nothing_of_it_is_noticed(
    odd: Path,
    places: Places,
    region: PlanRegion,
    what: str,
) -> None:
    """errno stays; held back is no place to be cancelled at; a child leaves all to its parent; what
    a full queue refuses was not sent, nor what is read, and of some requests nothing is valid."""
    one = Odd(odd, what, places)
    one.go()
    assert one.says() == "good"
    count = one.count()
    assert count is not None
    assert count.iterations > 0
    (pair,) = count.qps
    sent = {"fork": 1}.get(what, POSTS) * SIZE  # the child's post is of the same queue pair
    assert pair.bytes == sent
    assert (count.paced_s > 0) == (what != "fork")
    one.end()


def test_bytes_over_time_go_with_the_process(odd: Path, places: Places, region: PlanRegion) -> None:
    """In bins of its only queue pair, all of them; no other file is left."""
    one = Odd(odd, "errno", places)
    one.go()
    assert one.says() == "good"
    (listed,) = bin_files(places[1])
    file = open_bins(*listed)
    assert file is not None
    assert (file.job, file.pid, file.left_out) == ("job", one.process.pid, 0)
    now = time.monotonic_ns() >> BIN_SHIFT
    _, sent = file.read(now - RING // 2, now + 1)
    file.close()
    assert sent.sum() == POSTS * SIZE
    one.end()
    assert bin_files(places[1]) == []


def test_a_file_of_an_earlier_program_of_this_number(
    odd: Path,
    places: Places,
    region: PlanRegion,
) -> None:
    """Killed, and its number is ours; or the same process before it became another program."""
    one = Odd(odd, "errno", places, before=f"echo old > {places[1]}.$$")
    assert one.count() is not None
    one.end()


def test_a_job_that_may_make_small_files_only(
    odd: Path, places: Places, region: PlanRegion
) -> None:
    """Who makes a longer one is killed."""
    one = Odd(odd, "errno", places, before="ulimit -f 100")
    one.go()
    assert one.says() == "good"
    assert one.count() is None
    one.end()


def test_mlx5s_own_call_takes_the_port_that_the_kernel_makes(odd: Path, places: Places) -> None:
    """Of the numbers of both ends, for a queue pair that goes back."""
    library = a_fake_mlx5(odd)
    plan = PlanRegion.create(places[0], jobs=1, stale_s=60.0)
    plan.publish([RdmaJob("job", 0x20, (("198.18.0.1", (50001,)),))])
    one = Odd(odd, "back", places, before=f"export ODD_MLX5={library}")
    plan.publish([RdmaJob("job", 0x20, (("198.18.0.1", ()),))])
    one.go()
    assert one.says() == "good"
    one.until(lambda count: (count.qps[0].port, count.qps[0].moves) == (0, 1))
    one.end()
    plan.close()


def a_stand_in(odd: Path, name: str, source: str, *options: str) -> Path:
    """A library beside the program."""
    library = odd.with_name(name)
    subprocess.run(
        ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *options,
         "-o", str(library), str(NATIVE / source)],
        check=True,
    )  # fmt: skip
    return library


def a_fake_mlx5(odd: Path) -> Path:
    return a_stand_in(odd, "libmlx5.so.1", "fake_mlx5.c", "-Wl,-soname,libmlx5.so.1")


@pytest.mark.parametrize("what", ["mlx5", "refuse"])
def test_mlx5s_own_call_moves_without_draining(odd: Path, places: Places, what: str) -> None:
    """Another port alone; where the device refuses, the usual way.  Absent hardware: a stand-in."""
    library = a_fake_mlx5(odd)
    plan = steered(places)
    one = Odd(odd, what, places, before=f"export ODD_MLX5={library}")
    plan.publish([RdmaJob("job", 0x20, (("198.18.0.1", (50001,)),))])
    one.go()
    assert one.says() == "good"
    one.until(lambda count: count.qps[0].port == 50001)
    one.until(lambda count: (count.qps[0].moves, count.qps[0].failed) == (1, 0))
    one.end()
    plan.close()


def stuck(odd: Path, places: Places, what: str = "slow") -> tuple[Odd, PlanRegion]:
    """A job with a path whose move to another one was given up, and its plan."""
    plan = steered(places)
    one = Odd(odd, what, places)
    one.go()
    assert one.says() == "slow"
    plan.publish([RdmaJob("job", 0x20, (("198.18.0.1", (50001,)),))])
    one.until(lambda count: count.qps[0].failed > 0)
    return one, plan


def test_a_move_that_takes_too_long_is_given_up_not_left(odd: Path, places: Places) -> None:
    """What is under way does not come to an end while a move waits for it.  The queue pair goes
    back when it does, also when the agent has died meanwhile."""
    one, plan = stuck(odd, places)
    plan.close()
    one.go()
    assert one.says() == "good"
    count = one.count()
    assert count is not None
    assert (count.qps[0].port, count.qps[0].moves) == (50000, 0)
    one.end()


def test_what_has_drained_late_takes_the_path_of_the_plan_then(odd: Path, places: Places) -> None:
    """As after the death of a path: what is under way is only over when the device gives it up."""
    one, plan = stuck(odd, places)
    plan.publish([RdmaJob("job", 0x20, (("198.18.0.1", (50002,)),))])
    one.go()
    assert one.says() == "good"
    one.until(lambda count: (count.qps[0].port, count.qps[0].moves) == (50002, 1))
    one.end()
    plan.close()


@pytest.mark.parametrize("what", ["attributes", "leave"])
def test_the_job_changes_a_queue_pair_that_is_being_moved(
    odd: Path, places: Places, what: str
) -> None:
    """As in RTS, which it takes it to be in; the device refuses that while it drains."""
    one, plan = stuck(odd, places, what)
    one.go()
    assert one.says() == "good"
    one.until(lambda count: count.qps[0].port == 50001)
    one.end()
    plan.close()


def test_back_is_to_the_path_that_the_job_had(odd: Path, places: Places) -> None:
    plan = steered(places)
    one = Odd(odd, "errno", places)
    plan.publish([RdmaJob("job", 0x20, (("198.18.0.1", ()),))])
    one.until(lambda count: (count.qps[0].port, count.qps[0].moves) == (0, 1))
    plan.publish([RdmaJob("job", 0x20)])
    plan.publish([RdmaJob("job", 0x20, (("198.18.0.1", (50000,)),))])
    one.until(lambda count: (count.qps[0].port, count.qps[0].moves) == (50000, 2))
    one.end()
    plan.close()


def test_the_time_that_messages_take(odd: Path, places: Places, region: PlanRegion) -> None:
    one = Odd(odd, "errno", places)
    one.go()
    assert one.says() == "good"
    count = one.count()
    assert count is not None
    (pair,) = count.qps
    assert pair.completed == POSTS
    assert 0 < pair.busy_s < time.monotonic()
    assert pair.open_at == 0
    one.end()


def test_since_when_nothing_completes(odd: Path, places: Places) -> None:
    plan = PlanRegion.create(places[0], jobs=1, stale_s=60.0)
    plan.publish([RdmaJob("job")])
    began = time.monotonic()
    one = Odd(odd, "crowd", places)
    one.go()
    assert one.says() == "good"
    count = one.count()
    assert count is not None
    (pair,) = count.qps
    assert began < pair.open_at < time.monotonic()
    assert pair.completed == 0
    one.end()
    plan.close()


def test_an_environment_that_changes(odd: Path, places: Places) -> None:
    """Before there is an agent; where its memory is was asked for when the job connected."""
    one = Odd(odd, "env", places)
    one.go()
    assert one.says() == "good"
    plan = PlanRegion.create(places[0], jobs=1, stale_s=60.0)
    plan.publish([RdmaJob("job", 0x20)])
    one.until(lambda count: count.pid > 0)
    one.end()
    plan.close()


@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_a_plan_that_others_may_write_is_none(
    odd: Path,
    places: Places,
    region: PlanRegion,
    mode: int,
) -> None:
    places[0].chmod(mode)
    one = Odd(odd, "errno", places)
    assert one.count() is None
    one.end()


def test_who_polls_does_not_wait_for_who_posts(odd: Path, places: Places) -> None:
    """One thread waits for a link that another process has; completions come in meanwhile."""
    plan = PlanRegion.create(places[0], jobs=1, stale_s=60.0)
    plan.publish([RdmaJob("job", level=1, gates=(("", 0),))])
    held = Settings(patience_s=3.0, lease_s=10.0, aging_s=0.0)
    with Semaphores.create([("link", held)], places[2]) as links, links.join(0, 0) as holder:
        assert holder.enter()
        one = Odd(odd, "poll", places)
        one.go()
        assert one.says() == "good"
        assert links.states()[0].given_up == 1
        one.end()
    plan.close()


def test_threads_that_post_wait_once_not_one_after_the_other(odd: Path, places: Places) -> None:
    """Behind a link that another process has; native/threads.c shows it for each order."""
    plan = PlanRegion.create(places[0], jobs=1, stale_s=60.0)
    plan.publish([RdmaJob("job", level=1, gates=(("", 0),))])
    held = Settings(patience_s=1.0, lease_s=10.0, aging_s=0.0)
    with Semaphores.create([("link", held)], places[2]) as links, links.join(0, 0) as holder:
        assert holder.enter()
        one = Odd(odd, "crowd", places)
        one.go()
        assert one.says() == "good"
        assert 1 <= links.states()[0].given_up <= CROWD // 2
        one.end()
    plan.close()


def test_devices_that_are_closed_leave_their_place(
    odd: Path, places: Places, region: PlanRegion
) -> None:
    """More than there are places for, one after the other and then at once: those that come last
    are let be, which their process says."""
    number, room = 300, 256
    one = Odd(odd, f"devices {number}", places)
    one.go()
    assert one.says() == f"{number} {room - 1}"  # one of it is the first queue pair's
    assert one.says() == "good"
    one.until(lambda count: count.left_alone == number - room + 1)
    one.end()


def test_another_tool_that_looks_at_posts(odd: Path, places: Places, region: PlanRegion) -> None:
    """It comes after the shim, and before the device's next queue pair; each post counts once."""
    one = Odd(odd, "wrapped", places)
    one.go()
    assert one.says() == "good"
    one.until(lambda count: [pair.bytes for pair in count.qps] == [SIZE, 0])
    one.end()


def test_a_device_is_closed_under_its_queue_pair(odd: Path, places: Places) -> None:
    """Neither is touched again when the plan changes, others are moved."""
    plan = steered(places)
    one = Odd(odd, "undestroyed", places)
    one.go()
    assert one.says() == "closed"
    plan.publish([RdmaJob("job", 0x20, (("198.18.0.1", (50001,)),))])
    one.until(lambda count: [(qp.port, qp.moves) for qp in count.qps] == [(50001, 1)])
    one.go()
    assert one.says() == "good"
    one.end()
    plan.close()


def test_short_messages_stay_where_they_are(odd: Path, places: Places) -> None:
    """Path and class come with the first long message; what is read comes the other way."""
    plan = PlanRegion.create(places[0], jobs=1, stale_s=60.0, long_bytes=65536)
    plan.publish([RdmaJob("job", 0x20, (("198.18.0.1", (50000,)),))])
    one = Odd(odd, "lengths", places)
    one.go()
    assert one.says() == "short"
    plan.publish([RdmaJob("job", 0x28, (("198.18.0.1", (50001,)),))])
    one.until(lambda count: count.qps[0].longest == 256)
    short = one.count()
    assert short is not None
    assert (short.qps[0].port, short.qps[0].traffic_class, short.qps[0].moves) == (0, 0, 0)
    one.go()
    assert one.says() == "good"
    one.until(lambda count: count.qps[0].moves == 1)
    count = one.count()
    assert count is not None
    (pair,) = count.qps
    assert (pair.port, pair.traffic_class, pair.longest) == (50001, 0x28, 65536)
    one.end()
    plan.close()


def test_failed_completions_are_counted_but_not_flushed_ones(
    odd: Path, places: Places, region: PlanRegion
) -> None:
    one = Odd(odd, "errors", places)
    one.go()
    assert one.says() == "good"
    count = one.count()
    assert count is not None
    assert [pair.errors for pair in count.qps] == [2]
    one.end()
