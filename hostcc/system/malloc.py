"""Settings of glibc's allocator and Python's collector for making plans.

glibc gives free memory at the top of its heap back to the kernel, which hands it out again page by
page: a plan for 5,000 jobs has 10,000 page faults, or 40,000 from nothing, a tenth of its time.
Python's collector looks at all objects several times while a plan makes 100,000 without a cycle.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

# M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX (malloc.h).
_TRIM, _MMAP, _ARENAS = -1, -3, -8
TRIM_THRESHOLD_BYTES = 64 << 20
"""Free bytes at the top of the heap above which glibc returns them to the kernel."""
KEEP_FROM_JOBS = 1000
"""Jobs of a plan from which its memory is kept for the next one."""
MMAP_THRESHOLD_BYTES = 32 << 20
"""Size of a block, bytes, from which glibc maps it: the most that it comes to by itself."""


def set_trim_threshold() -> bool:
    """Keep freed memory for reuse, once in a process; False where the C library has no mallopt."""
    return _set(_MMAP, MMAP_THRESHOLD_BYTES) and _set(_TRIM, TRIM_THRESHOLD_BYTES)


def share_heap() -> bool:
    """Have all threads share one heap; call it before the first thread starts.

    By default each thread gets one, and memory that one freed is of no use to another.  They take
    turns at the interpreter anyway.
    """
    return _set(_ARENAS, 1)


def release() -> bool:
    """Return all free memory to the kernel; False where the C library cannot.

    Takes about a millisecond; memory that is needed again comes page by page.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim is not None and bool(trim(0))


def _set(what: int, value: int) -> bool:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(what, value))


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the collection of cycles in the whole process."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
