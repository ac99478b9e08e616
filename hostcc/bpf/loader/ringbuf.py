"""Reads a ring buffer of fixed-size records straight out of its memory into one array.

libbpf's own reader calls back once per record, which from Python costs more than the records are
worth.  Layout: kernel/bpf/ringbuf.c; the data area is mapped twice in a row, so a batch is always
contiguous.
"""

from __future__ import annotations

import mmap
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from hostcc.bpf.loader.errors import BpfError, system_error
from hostcc.bpf.loader.maps import BpfMap
from hostcc.bpf.loader.records import join

Records = npt.NDArray[np.void]

BUSY, DISCARDED = 1 << 31, 1 << 30
HEADER_BYTES = 8
MAP_TYPE_RINGBUF = 27
MAX_ROUNDS = 16


class RingBuffer:
    """Consumer of one ring buffer map; there may be only one per map.

    `fd` becomes readable (epoll) when a program has submitted something.
    """

    def __init__(self, ring: BpfMap, record: np.dtype[Any]) -> None:
        if ring.type != MAP_TYPE_RINGBUF:
            raise BpfError(f"map {ring.name} is not a ring buffer")
        self.fd = ring.fd
        self.dtype = record
        self.foreign = 0
        """Records of another size that were skipped so far."""
        self._size = ring.max_entries
        self._stride = HEADER_BYTES + -(-record.itemsize // 8) * 8
        self._fence = threading.Lock()
        page = mmap.PAGESIZE
        try:
            own = mmap.mmap(self.fd, page, mmap.MAP_SHARED)
            shared = mmap.mmap(
                self.fd, page + 2 * self._size, mmap.MAP_SHARED, mmap.PROT_READ, offset=page
            )
        except OSError as error:
            raise system_error(f"cannot map ring buffer {ring.name}", error.errno or 0) from error
        self._consumer = np.frombuffer(own, np.uint64, 1)
        self._producer = np.frombuffer(shared, np.uint64, 1)
        self._data = np.frombuffer(shared, np.uint8, 2 * self._size, page)

    def consume(self) -> Records:
        """Return all records submitted so far, oldest first; empty when there are none."""
        parts: list[Records] = []
        # The kernel wakes a reader only for a record that finds the buffer empty, so one
        # that comes while we read has to be seen by another round.
        for _ in range(MAX_ROUNDS):
            if not self._round(parts):
                break
        return join(parts, self.dtype)

    def _round(self, parts: list[Records]) -> bool:
        # Take what is there; False when nothing was.
        start = position = int(self._consumer[0])
        end = int(self._producer[0])
        while position < end:
            lengths, at = self._lengths(position, end)
            # Headers before bodies: a no-op on x86-64, needed where loads may be reordered.
            with self._fence:
                pass
            good = self._run_of_good(lengths)
            if good:
                kept = lengths[:good] & DISCARDED == 0
                parts.append(self._bodies(at, good)[kept])
                position += good * self._stride
            elif int(lengths[0]) & BUSY:
                break
            else:
                size = int(lengths[0]) & ~(BUSY | DISCARDED)
                self.foreign += not int(lengths[0]) & DISCARDED
                position += HEADER_BYTES + -(-size // 8) * 8
        if position != start:
            self._consumer[0] = position
        return position != start

    def _lengths(self, position: int, end: int) -> tuple[npt.NDArray[np.uint32], int]:
        # Header words from `position` on, supposing that all records are ours.
        at = position % self._size
        count = max(1, (end - position) // self._stride)
        return (
            np.ndarray((count,), np.uint32, self._data, at, (self._stride,)).copy(),
            at,
        )

    def _run_of_good(self, lengths: npt.NDArray[np.uint32]) -> int:
        # How many leading records are complete and of our size.
        wrong = lengths & ~np.uint32(DISCARDED) != self.dtype.itemsize
        return int(wrong.argmax()) if wrong.any() else len(lengths)

    def _bodies(self, at: int, count: int) -> Records:
        view: Records = np.ndarray(
            (count,), self.dtype, self._data, at + HEADER_BYTES, (self._stride,)
        )
        return view
