"""Marks at the agent's end: who is believed, and what nonsense does."""

from __future__ import annotations

import array
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc import mark
from hostcc.mark import HELLO, MAGIC, SIZE, SLOTS
from hostcc.measure import marks
from hostcc.measure.marks import MarkReceiver, boundaries, new_times
from hostcc.system.quota import Quota

pytestmark = pytest.mark.unit

NOW = 10_000_000_000_000
SENDER = """
import os, sys, hostcc.mark
hostcc.mark.HELLO_EVERY_NS = int(sys.argv[1])
for line in sys.stdin:
    for _ in range(int(line)):
        hostcc.mark.iteration()
    print(hostcc.mark._count, flush=True)
"""


class Sender:
    """A process that marks as often as it is told."""

    def __init__(self, path: str, hello_every_ns: int = 3600 * 10**9) -> None:
        environment = {**os.environ, "HOSTCC_MARK_SOCKET": path}
        self.process = subprocess.Popen(
            [sys.executable, "-c", SENDER, str(hello_every_ns)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.pid = self.process.pid

    def mark(self, times: int) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{times}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def end(self) -> None:
        self.process.communicate()


@pytest.fixture
def jobs() -> dict[int, str]:
    return {}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "marks.sock")


@pytest.fixture
def receiver(path: str, jobs: dict[int, str]) -> Iterator[MarkReceiver]:
    opened = MarkReceiver(path, jobs.get)
    yield opened
    opened.close()
    opened.close_socket()
    assert not Path(path).exists()


def receive(receiver: MarkReceiver) -> None:
    """All that has come."""
    with suppress(BlockingIOError):
        while True:
            receiver.admit(receiver.take())


@pytest.fixture
def sender(path: str) -> Iterator[Sender]:
    process = Sender(path)
    yield process
    process.end()


def send(path: str, data: bytes, fds: list[int]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        sock.sendmsg([data], rights, 0, path)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_the_magic_number_reads_as_text() -> None:
    assert struct.pack("<Q", MAGIC) == b"HCCMARK1"


def test_marks_arrive(receiver: MarkReceiver, jobs: dict[int, str], sender: Sender) -> None:
    jobs[sender.pid] = "a"
    before = time.monotonic_ns()
    assert sender.mark(3) == 3
    receive(receiver)
    found = receiver.poll()
    assert [(m.job, m.pid) for m in found] == [("a", sender.pid)] * 3
    assert before < found[0].at_ns <= found[1].at_ns <= found[2].at_ns <= time.monotonic_ns()
    assert receiver.poll() == []
    sender.mark(2)
    assert len(receiver.poll()) == 2
    assert {pid: len(times) for pid, times in receiver.times("a").items()} == {sender.pid: 5}
    assert receiver.times("b") == {}
    sender.mark(SLOTS + 10)  # more than the memory holds
    assert len(receiver.poll()) <= SLOTS
    sender.end()
    receiver.poll()
    assert receiver.times("a") == {}
    assert receiver.refused == 0


def test_a_process_of_no_job(receiver: MarkReceiver, sender: Sender) -> None:
    sender.mark(3)
    files = open_files()
    receive(receiver)
    assert receiver.poll() == []
    assert receiver.refused == 1
    assert open_files() == files


def test_marks_that_are_made_while_others_are_read(path: str, jobs: dict[int, str]) -> None:
    """The last of a thousand senders is read some tens of milliseconds after the first."""
    sender = Sender(path)
    jobs[sender.pid] = "a"
    marking = False

    def clock_ns() -> int:
        now = time.monotonic_ns()
        if marking:
            sender.mark(3)
        return now

    receiver = MarkReceiver(path, jobs.get, clock_ns=clock_ns)
    sender.mark(1)
    receiver.admit(receiver.take())
    marking = True
    receiver.poll()
    marking = False
    receiver.poll()
    assert len(receiver.times("a")[sender.pid]) == 4
    receiver.close()
    receiver.close_socket()
    sender.end()


def test_an_agent_that_starts_later(path: str) -> None:
    sender = Sender(path, hello_every_ns=0)
    assert sender.mark(3) == 3  # nobody listens
    for marks_before in (3, 4):  # and one that starts again
        late = MarkReceiver(path, lambda pid: "a")
        receive(late)
        assert late.poll() == []
        sender.mark(1)
        receive(late)
        assert len(late.poll()) == marks_before + 1
        late.close()
        late.close_socket()
    sender.end()


def test_what_is_no_sealed_memory(
    receiver: MarkReceiver, jobs: dict[int, str], path: str, tmp_path: Path
) -> None:
    jobs[os.getpid()] = "a"
    (tmp_path / "file").write_bytes(bytes(SIZE))
    reading, writing = os.pipe()
    plain = os.open(tmp_path / "file", os.O_RDWR)
    soft = os.memfd_create("x", os.MFD_ALLOW_SEALING)
    os.ftruncate(soft, SIZE)
    files = open_files()
    for fds in ([], [reading], [plain], [soft], [plain, soft]):
        send(path, HELLO, fds)
    send(path, b"hostcc-mark/9", [])
    send(path, HELLO + b"x" * 100, [])
    receive(receiver)
    assert receiver.refused == 7
    assert receiver.poll() == []
    assert open_files() == files
    for fd in (reading, writing, plain, soft):
        os.close(fd)


def test_a_close_that_fails_ends_nothing(
    receiver: MarkReceiver, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a file whose file system was in a process that has ended."""
    close = os.close

    def fails(fd: int) -> None:
        close(fd)
        raise ConnectionAbortedError

    reading, writing = os.pipe()
    files = open_files()
    send(path, HELLO, [reading])
    monkeypatch.setattr(os, "close", fails)
    receive(receiver)
    monkeypatch.undo()
    assert receiver.refused == 1
    assert open_files() == files
    for fd in (reading, writing):
        close(fd)


def test_a_process_shows_itself_again(
    receiver: MarkReceiver, jobs: dict[int, str], path: str
) -> None:
    jobs[os.getpid()] = "a"
    one, view = mark._memory()
    other, _ = mark._memory()
    view[2], view[1] = time.monotonic_ns(), 1
    send(path, HELLO, [one])
    receive(receiver)
    files = open_files()
    assert [m.job for m in receiver.poll()] == ["a"]
    jobs[os.getpid()] = "b"
    send(path, HELLO, [one])
    receive(receiver)
    assert receiver.times("b")[os.getpid()]
    send(path, HELLO, [other])  # after exec, say
    receive(receiver)
    assert receiver.times("b") == {os.getpid(): []}
    jobs.clear()
    send(path, HELLO, [other])
    receive(receiver)
    assert receiver.times("b") == {}
    assert open_files() == files - 1
    os.close(one)
    os.close(other)


def test_bounded_per_job(
    receiver: MarkReceiver, jobs: dict[int, str], sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks, "MAX_SENDERS_PER_JOB", 0)
    jobs[sender.pid] = "a"
    sender.mark(1)
    receive(receiver)
    assert receiver.times("a") == {}


def memory(total: int, times: dict[int, int], magic: int = MAGIC) -> bytes:
    ring = [times.get(slot, 0) for slot in range(SLOTS)]
    return struct.pack(f"={2 + SLOTS}Q", magic, total, *ring)


def test_times_that_are_not_believed() -> None:
    good = memory(3, {0: NOW - 30, 1: NOW - 20, 2: NOW - 10})
    assert new_times(good, 0, 0, NOW) == (3, [NOW - 30, NOW - 20, NOW - 10])
    assert new_times(good, 2, NOW - 20, NOW) == (3, [NOW - 10])
    assert new_times(good, 3, NOW - 10, NOW) == (3, [])
    assert new_times(good, 0, 0, NOW - 20) == (3, [NOW - 30, NOW - 20])  # the future
    backwards = memory(2, {0: NOW - 10, 1: NOW - 20})
    assert new_times(backwards, 0, 0, NOW) == (2, [NOW - 10])
    ancient = memory(1, {0: 5})
    assert new_times(ancient, 0, 0, NOW) == (1, [])
    assert new_times(memory(1, {0: NOW}, magic=1), 0, 0, NOW) == (0, [])
    assert new_times(b"", 7, 0, NOW) == (7, [])
    lost = memory(SLOTS + 1, {slot: NOW - SLOTS + slot for slot in range(1, SLOTS)} | {0: NOW})
    assert len(new_times(lost, 0, 0, NOW)[1]) == SLOTS


@given(
    st.integers(0, 2**64 - 1),
    st.dictionaries(st.integers(0, SLOTS - 1), st.integers(0, 2**64 - 1)),
    st.integers(0, 2**64 - 1),
    st.integers(0, NOW),
)
def test_any_memory_gives_times_in_order(
    total: int, times: dict[int, int], count: int, last: int
) -> None:
    after, found = new_times(memory(total, times), count, last, NOW)
    assert after >= count
    assert len(found) <= SLOTS
    assert all(last < at <= NOW for at in found)
    assert found == sorted(set(found))


def test_one_rank_speaks_for_the_job() -> None:
    assert boundaries({}) == []
    assert boundaries({7: [1_000_000_000], 9: [1_500_000_000, 2_000_000_000]}) == [1.5, 2.0]
    assert boundaries({9: [2], 7: [1]}) == [1e-9]


def test_senders_are_counted_by_their_users_and_over_the_quota_refused(path: str) -> None:
    senders = [Sender(path, hello_every_ns=0) for _ in range(2)]
    opened = MarkReceiver(path, lambda _: "a", lambda: Quota(total=1, for_root=0))
    for sender in senders:
        sender.mark(1)
        receive(opened)
    assert (opened.senders, opened.refused, opened.over_quota) == (1, 1, 1)
    assert opened.over == "all 1 are in use"
    senders[0].end()
    opened.poll()
    senders[1].mark(1)
    receive(opened)
    assert (opened.senders, opened.over_quota) == (1, 1)
    opened.close()
    opened.close_socket()
    senders[1].end()
