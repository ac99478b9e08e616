"""Sockets that write down all operations (progs/trace.bpf.c), compared with the oracle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hostcc.bpf.loader.object import BpfObject
from hostcc.mltcp.backend import Records
from hostcc.mltcp.params import JobParams, Variant
from tests.mltcp.dctcp_oracle import After, DctcpOracle
from tests.mltcp.stage import Stage, follow, mltcp_from

OPERATIONS = {Variant.DCTCP: "trace_dctcp", Variant.RENO: "trace_deaf"}


@dataclass
class Trace:
    """Records of all sockets, compared with an oracle for each."""

    records: Records
    operations: dict[int, str]

    def op(self, record: np.void) -> str:
        return self.operations[int(record["op"])]

    def of(self, op: str, argument: int | None = None) -> list[np.void]:
        return [
            r
            for r in self.records
            if self.op(r) == op and (argument is None or r["argument"] == argument)
        ]

    def differences(self) -> list[str]:
        sockets = defaultdict(list)
        for record in self.records:
            sockets[int(record["lport"]), int(record["rport"])].append(record)
        return [line for rows in sockets.values() for line in self._differences(rows)]

    def _differences(self, records: list[np.void]) -> Iterator[str]:
        oracle = DctcpOracle()
        for number, r in enumerate(records):
            op = self.op(r)
            for name, want, got in _pairs(oracle.expected(op, r), r):
                if want != got:
                    ports = f"{r['lport']} to {r['rport']}"
                    yield f"{ports}, record {number}, {op}: {name} is {got} instead of {want}"


def _pairs(after: After, r: np.void) -> list[tuple[str, int, int]]:
    fields = [("cwnd", "cwnd_after"), ("cwnd_cnt", "cwnd_cnt_after"), ("alpha", "alpha_q10"),
              ("ssthresh", "ssthresh_after"), ("ecn_flags", "ecn_flags_after"),
              ("result", "result"), ("ack_pending", "ack_pending_after")]  # fmt: skip
    return [(name, getattr(after, name), int(r[field])) for name, field in fields]


class Recorder:
    def __init__(self, obj: BpfObject) -> None:
        self._obj = obj
        self._ring = obj.ringbuf("traces", "trace_record")
        self._records = self._ring.consume().copy()

    def trace(self) -> Trace:
        """Everything since the start."""
        assert self._obj.map("traces_lost").lookup(0) == 0
        self._records = np.concatenate([self._records, self._ring.consume()])
        names = {
            number: name.removeprefix("TRACE_").lower()
            for name, number in self._obj.enums.items()
            if name.startswith("TRACE_")
        }
        return Trace(self._records, names)

    def until(
        self, enough: Callable[[Trace], bool], play: Callable[[], None], times: int = 20
    ) -> Trace:
        """Play until the trace has what is wanted; how soon depends on the machine's mood."""
        for _ in range(times):
            play()
            trace = self.trace()
            if enough(trace):
                return trace
        raise AssertionError(f"played {times} times, and still too little to compare")


@contextmanager
def recording(stage: Stage, progs: Path, params: JobParams, hosts: int = 2) -> Iterator[Recorder]:
    """Sockets of the first `hosts` hosts run the variant, and write down what they do."""
    with mltcp_from(progs / "trace.bpf.o", OPERATIONS) as (kernel, obj):
        for host in range(hosts):
            follow(kernel, stage, replace(params, name=f"host{host}"), slot=1 + host, host=host)
        yield Recorder(obj)
        stage.clear()
