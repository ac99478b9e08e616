"""Processes that use semaphores at full speed, for benchmarks and tests.

`python -m hostcc.pcie.exercise KIND SPEC` runs one and prints JSON: `turns` (how long each
turn waited), `wakes` (the same of two that only wake each other), `job` (bursts of messages
through an emulated copy engine, gated or not), `cost`.
The engine is a token bucket in shared memory that stands for a PCIe link; exercise.c says more.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import numpy as np

from hostcc.pcie import layout
from hostcc.pcie.library import HERE, PCIE
from hostcc.pcie.semaphore import Semaphores
from hostcc.system.cc import build, shared_library

EXERCISE = shared_library(
    HERE / "libhostcc-exercise.so",
    (HERE / "exercise.c", *PCIE.sources),
    exports=("hcc_sem_*", "hcc_exercise_*"),
)


SHARED = 16
"""Bytes of an engine or of bells."""


class Spec(msgspec.Struct, frozen=True):
    """What one process does."""

    region: str
    """Path of the semaphores; empty: none."""
    link: int = 0
    level: int = 0
    turns: int = 0
    hold_us: float = 0.0
    gap_us: float = 0.0
    before: int = 0
    """Level of the one whose leaving a hand-over is measured from."""
    self: int = 0
    """Which of two that wake each other; 0 begins."""
    engine: str = ""
    """Path of the engine's bytes, or of the bells."""
    rate: float = 1e9
    """Of the engine, bytes per second."""
    message: int = 1 << 18
    messages: int = 64
    compute_us: float = 0.0
    start_ns: int = 0
    """CLOCK_MONOTONIC at which to begin."""
    seconds: float = 1.0


class Turns(msgspec.Struct, frozen=True):
    """Nanoseconds of each turn."""

    waited: list[int]
    after: list[int]
    """From the other's leaving to this one's turn; 0 where it did not wait."""


class Sent(msgspec.Struct, frozen=True):
    """What a job got through."""

    bytes: int
    bursts: int
    seconds: float


class Cost(msgspec.Struct, frozen=True):
    """Nanoseconds with nobody else there."""

    enter_leave: float
    boundary: float


class _Job(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in ("rate", "message", "messages", "compute_ns", "until_ns", "sent", "bursts")
    )


def start(kind: str, spec: Spec) -> subprocess.Popen[bytes]:
    """Run one in a process of its own; read its answer with `answer`."""
    words = [sys.executable, "-m", "hostcc.pcie.exercise", kind]
    encoded = msgspec.json.encode(spec).decode()
    return subprocess.Popen([*words, encoded], stdout=subprocess.PIPE)


def answer(process: subprocess.Popen[bytes], timeout_s: float = 120.0) -> bytes:
    """What a process printed."""
    with process:
        try:
            printed = process.communicate(timeout=timeout_s)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    if process.returncode:
        raise RuntimeError(f"exercise: exit status {process.returncode}")
    return printed


def make_engine(path: Path) -> None:
    """The shared memory of an engine, or of bells."""
    path.write_bytes(bytes(SHARED))


def main(arguments: list[str]) -> int:
    """One process."""
    kind, text = arguments
    spec = msgspec.json.decode(text, type=Spec)
    build(EXERCISE)
    library = ctypes.CDLL(str(EXERCISE.target))
    for name in ("cost", "boundary"):
        function = getattr(library, f"hcc_exercise_{name}")
        function.restype, function.argtypes = ctypes.c_double, [ctypes.c_void_p, ctypes.c_uint64]
    region = Semaphores.open(Path(spec.region)) if spec.region else None
    member = None if region is None else region.join(spec.link, spec.level)
    pointer = None if member is None else member.pointer
    while time.monotonic_ns() < spec.start_ns:
        time.sleep(0.0005)
    result: msgspec.Struct
    if kind == "job":
        result = _job(library, pointer, spec)
    elif kind == "wakes":
        result = _wakes(library, spec)
    elif kind == "cost":
        rounds = 200_000
        result = Cost(
            min(library.hcc_exercise_cost(pointer, rounds) for _ in range(5)),
            min(library.hcc_exercise_boundary(pointer, rounds) for _ in range(5)),
        )
    else:
        assert region is not None
        result = _turns(library, pointer, region.link_address(spec.link), spec)
    if member is not None:
        member.close()
    sys.stdout.buffer.write(msgspec.json.encode(result))
    return 0


def _wakes(library: ctypes.CDLL, spec: Spec) -> Turns:
    fd = os.open(spec.engine, os.O_RDWR)
    after = np.zeros(spec.turns, np.uint64)
    with mmap.mmap(fd, SHARED) as shared:
        bells = (ctypes.c_char * SHARED).from_buffer(shared)
        library.hcc_exercise_wakes(
            ctypes.byref(bells), spec.self, ctypes.c_uint64(spec.turns),
            ctypes.c_uint64(int(spec.hold_us * 1e3)), after.ctypes.data_as(ctypes.c_void_p),
        )  # fmt: skip
        del bells
    os.close(fd)
    return Turns([], after.tolist())


def _job(library: ctypes.CDLL, pointer: ctypes.c_void_p | None, spec: Spec) -> Sent:
    fd = os.open(spec.engine, os.O_RDWR)
    with mmap.mmap(fd, SHARED) as shared:
        engine = ctypes.c_uint64.from_buffer(shared)
        began = time.monotonic_ns()
        job = _Job(
            int(spec.rate), spec.message, spec.messages, int(spec.compute_us * 1e3),
            began + int(spec.seconds * 1e9), 0, 0,
        )  # fmt: skip
        library.hcc_exercise_job(pointer, ctypes.byref(engine), ctypes.byref(job))
        took = (time.monotonic_ns() - began) / 1e9
        del engine
    os.close(fd)
    return Sent(job.sent, job.bursts, took)


def _turns(library: ctypes.CDLL, pointer: ctypes.c_void_p | None, link: int, spec: Spec) -> Turns:
    waited, after = np.zeros(spec.turns, np.uint64), np.zeros(spec.turns, np.uint64)
    library.hcc_exercise_turns(
        pointer, ctypes.c_void_p(link), spec.before % layout.LEVELS,
        ctypes.c_uint64(spec.turns), ctypes.c_uint64(int(spec.hold_us * 1e3)),
        ctypes.c_uint64(int(spec.gap_us * 1e3)),
        waited.ctypes.data_as(ctypes.c_void_p), after.ctypes.data_as(ctypes.c_void_p),
    )  # fmt: skip
    return Turns(waited.tolist(), after.tolist())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
