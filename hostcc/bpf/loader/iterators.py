"""Reads BPF iterators: programs run over all sockets of a network namespace, as one stream."""

from __future__ import annotations

import errno
import os

from hostcc.bpf.loader.errors import BpfError, system_error
from hostcc.bpf.loader.libbpf import call
from hostcc.bpf.loader.links import BpfLink

CHUNK_BYTES = 1 << 16
# The kernel interrupts a run after a million silent visits and asks to be called again.
SILENT_READS = 64


class BpfIter:
    """An attached iterator.  Each `read` is one fresh run over everything.

    The run sees the network namespace of the thread that calls `read`; see `netns.in_netns`.
    """

    def __init__(self, link: BpfLink) -> None:
        self.link = link

    def read(self, max_bytes: int = 1 << 28) -> bytes:
        """Run to the end and return what the program wrote.

        BpfError (EMSGSIZE) when that is more than `max_bytes`: a part would mislead.
        """
        fd = call("bpf_iter_create", self.link.fd, what=f"cannot start {self.link.what}")
        chunks: list[bytes] = []
        total = silent = 0
        try:
            while True:
                try:
                    chunk = os.read(fd, CHUNK_BYTES)
                except OSError as error:
                    if error.errno == errno.EAGAIN and silent < SILENT_READS:
                        silent += 1
                        continue
                    raise system_error(f"{self.link.what}: read", error.errno or 0) from error
                if not chunk:
                    return b"".join(chunks)
                chunks.append(chunk)
                total += len(chunk)
                if total > max_bytes:
                    raise BpfError(
                        f"{self.link.what}: more than {max_bytes} bytes", errno=errno.EMSGSIZE
                    )
        finally:
            os.close(fd)

    def close(self) -> None:
        """Detach the iterator."""
        self.link.close()
