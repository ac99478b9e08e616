"""Finds the connections of jobs that are large enough for a path of their own.  Pure."""

from __future__ import annotations

import hashlib
import ipaddress
import socket
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from hostcc.daemon.gossip.profile_store import ExpectedJob
from hostcc.model import JobProfile
from hostcc.paths.steering_messages import FlowKey

HALF_LIFE_S = 20.0
"""Half-life of a connection's bytes when a job's bytes to a host are divided among several."""
STAY_FRACTION = 0.5
"""An elephant stays one down to this part of the threshold."""
KEEP_PERIOD_S = 30.0
"""Time that a job's last known period serves after the period was lost."""
MAX_EARLY = 16
"""Connections of a job that ran before whose paths are looked for before they are large."""
_ESTABLISHED = 1


@dataclass(frozen=True)
class Connection:
    """An established TCP connection of a job, as its host sees it."""

    job: str
    key: FlowKey
    """5-tuple in the direction that this host sends in."""
    acked: int
    """Bytes acknowledged since it began."""
    srtt_s: float
    min_rtt_s: float
    segments: int
    """Full-size segments that these bytes need."""
    retransmitted: int
    in_flight: int
    """Segments on their way."""


@dataclass(frozen=True)
class Elephant:
    """A connection that gets a path of its own."""

    connection: Connection
    host: str
    """Member at the other end."""
    bytes: float
    """Bytes per iteration of its job."""

    @property
    def key(self) -> FlowKey:
        """Its 5-tuple."""
        return self.connection.key


def flow_id(key: FlowKey) -> str:
    """Name a flow, uniquely at its host."""
    raw = "\0".join(map(str, (key.src, key.dst, key.sport, key.dport)))
    short = hashlib.blake2s(raw.encode(), digest_size=4).hexdigest()
    return f"{key.sport}-{key.dport}-{short}"


def connections(
    rows: Any, jobs: Mapping[int, str], least: float,
    expected: Mapping[str, ExpectedJob] = MappingProxyType({}),
) -> list[Connection]:  # fmt: skip
    """Pick jobs' connections that sent at least `least` bytes out of struct hcc_flow_record rows.

    `jobs`: slot -> name.  Connections of a host with itself are left out.  Of `expected` jobs the
    first MAX_EARLY to their destinations count whatever they have sent.
    """
    large, early = rows["bytes_acked"] >= least, Counter[str]()
    large |= np.isin(rows["slot"], [slot for slot, job in jobs.items() if job in expected])
    good = large & (rows["state"] == _ESTABLISHED) & np.isin(rows["slot"], list(jobs))
    found = []
    for row in rows[good]:
        src = _address(row, "laddr")
        dst = _address(row, "raddr")
        if src == dst or ipaddress.ip_address(dst).is_loopback:
            continue
        if row["bytes_acked"] < least:
            job = jobs[int(row["slot"])]
            if dst not in expected[job].to or early[job] >= MAX_EARLY:
                continue
            early[job] += 1
        least_rtt, mss = int(row["min_rtt_us"]), max(1, int(row["mss_bytes"]))
        found.append(
            Connection(
                job=jobs[int(row["slot"])],
                key=FlowKey(src, dst, int(row["lport"]), int(row["rport"])),
                acked=int(row["bytes_acked"]),
                srtt_s=int(row["srtt_us"]) / 1e6,
                min_rtt_s=0.0 if least_rtt == 0xFFFFFFFF else least_rtt / 1e6,
                segments=int(row["bytes_acked"]) // mss,
                retransmitted=int(row["retrans"]),
                in_flight=int(row["inflight"]),
            )
        )
    return found


def begun(those: Iterable[Connection], expected: Mapping[str, ExpectedJob]) -> frozenset[str]:
    """Find expected jobs that have sent so much that they can be in an iteration."""
    sent = Counter[str]()
    for one in those:
        sent[one.job] += one.acked
    return frozenset(job for job, of in expected.items() if sent[job] >= max(1, of.begin_bytes))


def stalled(now: Iterable[Connection], before: Mapping[FlowKey, Connection]) -> frozenset[FlowKey]:
    """Find flows with segments on their way and nothing acknowledged since `before`."""
    return frozenset(
        one.key
        for one in now
        if one.in_flight
        and (then := before.get(one.key)) is not None
        and then.in_flight
        and then.acked == one.acked
    )


class Sizes:
    """Divides a job's bytes to a host among its connections to it."""

    def __init__(self) -> None:
        # (Bytes acknowledged, those of lately).
        self._seen: dict[FlowKey, tuple[int, float]] = {}
        self._large: set[FlowKey] = set()
        # (Job, address) -> (bytes per iteration, when that was measured).
        self._volumes: dict[tuple[str, str], tuple[float, float]] = {}
        self._at: float | None = None

    def elephants(
        self,
        those: Sequence[Connection],
        profiles: Iterable[JobProfile],
        hosts: Mapping[str, str],
        threshold: float,
        now: float,
    ) -> list[Elephant]:
        """List connections with `threshold` bytes per iteration to a member; `hosts`: address ->
        member."""
        self._follow(those, now)
        sums: dict[tuple[str, str], float] = {}
        for one in those:
            at = one.job, one.key.dst
            sums[at] = sums.get(at, 0.0) + self._seen[one.key][1]
        volumes = self._known_volumes(profiles, now)
        found = []
        for one in those:
            host, at = hosts.get(one.key.dst), (one.job, one.key.dst)
            if host is None or at not in volumes or not sums[at]:
                continue
            size = volumes[at] * self._seen[one.key][1] / sums[at]
            if size >= threshold * (STAY_FRACTION if one.key in self._large else 1.0):
                found.append(Elephant(one, host, size))
        self._large = {one.key for one in found}
        return found

    def _known_volumes(
        self, profiles: Iterable[JobProfile], now: float
    ) -> dict[tuple[str, str], float]:
        for profile in profiles:
            for to, size in profile.bytes_to:
                self._volumes[profile.job, to] = size, now
        kept = {at: known for at, known in self._volumes.items() if now - known[1] <= KEEP_PERIOD_S}
        self._volumes = kept
        return {at: size for at, (size, _) in kept.items()}

    def _follow(self, those: Sequence[Connection], now: float) -> None:
        fade = 1.0 if self._at is None else 0.5 ** (max(0.0, now - self._at) / HALF_LIFE_S)
        self._at = now
        seen = {}
        for one in those:
            before, lately = self._seen.get(one.key, (0, 0.0))
            new = one.acked - before if one.acked >= before else one.acked
            seen[one.key] = one.acked, lately * fade + new
        self._seen = seen


def _address(row: Any, name: str) -> str:
    raw = bytes(row[name])
    if int(row["family"]) == socket.AF_INET:
        return str(ipaddress.IPv4Address(raw[:4]))
    wide = ipaddress.IPv6Address(raw)
    return str(wide.ipv4_mapped or wide)
