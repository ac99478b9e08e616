"""What `hostcc flows` answers: the jobs' connections."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from hostcc.answers.fields import Bytes, BytesPerSecond, Microseconds, Packets

FLOWS = "hostcc.flows/1"


class FlowRow(Struct, frozen=True, kw_only=True):
    """One connection. An agent that only observes knows `job`, `local`, `remote`, `state`,
    `protocol`, `wire_port` and `dscp`, and only of jobs with port rules."""

    job: str
    """Whose it is."""
    local: str
    """ADDRESS:PORT."""
    remote: str
    """ADDRESS:PORT."""
    state: str
    """Of TCP: `established`, `fin-wait-1`, ..."""
    congestion_control: str | UnsetType = UNSET
    """Name of the one that it runs."""
    ours: bool | UnsetType = UNSET
    """Whether that is one of this agent's."""
    left_alone: bool | UnsetType = UNSET
    """Its owner or an administrator chose it."""
    cwnd_packets: Packets | UnsetType = UNSET
    """Congestion window."""
    ssthresh_packets: Packets | UnsetType = UNSET
    """Slow-start threshold."""
    srtt_us: Microseconds | UnsetType | None = UNSET
    """Smoothed round trip; None: not measured yet."""
    min_rtt_us: Microseconds | UnsetType | None = UNSET
    """Shortest round trip; None: not measured yet."""
    mss_bytes: Bytes | UnsetType = UNSET
    """Maximum segment size."""
    retransmitted_packets: Packets | UnsetType = UNSET
    """Retransmitted so far."""
    bytes_acked: Bytes | UnsetType = UNSET
    """Acknowledged so far."""
    pacing_bytes_per_s: BytesPerSecond | UnsetType | None = UNSET
    """Pacing rate; None: unlimited."""
    cgroup_id: int | UnsetType = UNSET
    """Of the cgroup in which it was opened."""
    protocol: str = "tcp"
    """`tcp`."""
    path: str | None = None
    """Id as in `hostcc probe`; None: unknown, as for flows too small to be looked at."""
    planned_path: str | None = None
    """The path that the plan gives it; None: none."""
    path_is: str | None = None
    """`wanted`: on the planned path; `found`: where switches, or an earlier plan, put it; None
    without `path`."""
    wire_port: int | None = None
    """Source port that switches see."""
    flow_label: int | None = None
    """Flow label that hostcc has given it (IPv6 with `paths.ipv6 = "label"`); None: none."""
    dscp: int | None = None
    """What its socket sends with, whoever set it; None: the kernel does not say."""
    level: int | None = None
    """Priority level of its job in the plan; None: none."""


class Flows(Struct, frozen=True, kw_only=True):
    """The jobs' connections."""

    schema: str = FLOWS
    """Names this form."""
    total: int
    """How many there are."""
    flows: list[FlowRow]
    """The first `limit` of them."""
