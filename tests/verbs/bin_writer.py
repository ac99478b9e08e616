"""Files of bins as the shim writes them, for tests of those who read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hostcc.verbs.plan_region import gid_of
from hostcc.verbs.process_counts import bins_prefix
from hostcc.verbs.queue_pair_bins import FILE_BYTES, MAGIC, RING, RINGS_AT, VERSION, BinsEntry


@dataclass(frozen=True)
class Writer:
    """One queue pair."""

    sent: Mapping[int, int]
    """Number of a bin -> bytes; of the last turn of the ring only."""
    to: str = "198.18.0.1"
    device: str = "mlx5_0"
    open_ns: int = 0


def write_bins(
    counts: Path, pid: int, job: str, pairs: Sequence[Writer], *, left_out: int = 0
) -> Path:
    """Write the file of a process; `counts`: prefix of the counters."""
    head = BinsEntry(magic=MAGIC, version=VERSION, pid=pid, name=job.encode(), rows=len(pairs))
    head.left_out = left_out
    rings = np.zeros((len(pairs), RING), np.uint64)
    for place, pair in enumerate(pairs):
        row = head.row[place]
        row.qpn, row.source, row.device = 17 + place, 1 << 16 | 3, pair.device.encode()
        row.newest, row.open_ns = max(pair.sent, default=0), pair.open_ns
        row.dgid[:] = gid_of(pair.to)
        for bin_, size in pair.sent.items():
            rings[place, bin_ % RING] = size
    prefix = bins_prefix(counts)
    path = prefix.with_name(f"{prefix.name}.{pid}")
    with path.open("wb") as file:
        file.write(bytes(head))
        file.seek(RINGS_AT)
        file.write(rings.tobytes())
        file.truncate(FILE_BYTES)
    return path
