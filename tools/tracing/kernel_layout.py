"""Kernel offsets for the tracing programs, from the kernel's BTF to C macros.  Pure.

bcc may compile against headers of another kernel, so nothing may depend on a struct in them.
The programs read kernel memory at offsets O_NAME, which are taken from the BTF of the kernel
that runs and given to the compiler, together with sizes S_NAME and drop reasons.
"""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass

from hostcc.bpf.loader.btf import PTR, STRUCT, TYPEDEF, Btf
from hostcc.bpf.loader.elf import FormatError
from hostcc.errors import HostccError

_STRUCTS = frozenset({STRUCT})
_NAMES = re.compile(r"\b[OS]_[A-Z0-9_]+\b")


@dataclass(frozen=True)
class Field:
    """A member, by steps of (struct, path), their offsets added up; and the bytes it must have."""

    steps: tuple[tuple[str, str], ...]
    size: int


def _field(struct: str, path: str, size: int) -> Field:
    return Field(((struct, path),), size)


FIELDS = {
    "O_INET_SPORT": _field("inet_sock", "inet_sport", 2),
    "O_SK_FAMILY": _field("sock_common", "skc_family", 2),
    "O_SK_NUM": _field("sock_common", "skc_num", 2),
    "O_SK_DPORT": _field("sock_common", "skc_dport", 2),
    "O_SK_SADDR": _field("sock_common", "skc_rcv_saddr", 4),
    "O_SK_DADDR": _field("sock_common", "skc_daddr", 4),
    "O_SK_SADDR6": _field("sock_common", "skc_v6_rcv_saddr", 16),
    "O_SK_DADDR6": _field("sock_common", "skc_v6_daddr", 16),
    "O_SK_NET": _field("sock_common", "skc_net.net", 8),
    "O_SK_CGROUP": _field("sock", "sk_cgrp_data.cgroup", 8),
    "O_SK_DST": _field("sock", "sk_dst_cache", 8),
    "O_SK_PROTOCOL": _field("sock", "sk_protocol", 2),
    "O_SK_PACING": _field("sock", "sk_pacing_rate", 8),
    "O_CGROUP_KN": _field("cgroup", "kn", 8),
    "O_KN_ID": _field("kernfs_node", "id", 8),
    "O_NET_INUM": _field("net", "ns.inum", 4),
    "O_ICSK_CA_OPS": _field("inet_connection_sock", "icsk_ca_ops", 8),
    "O_ICSK_CA_PRIV": _field("inet_connection_sock", "icsk_ca_priv", 104),
    "O_CA_NAME": _field("tcp_congestion_ops", "name", 16),
    "O_TP_SND_UNA": _field("tcp_sock", "snd_una", 4),
    "O_TP_SND_NXT": _field("tcp_sock", "snd_nxt", 4),
    "O_TP_WRITTEN": _field("tcp_sock", "write_seq", 4),
    "O_TP_CWND": _field("tcp_sock", "snd_cwnd", 4),
    "O_TP_SSTHRESH": _field("tcp_sock", "snd_ssthresh", 4),
    "O_TP_SRTT": _field("tcp_sock", "srtt_us", 4),
    "O_TP_MIN_RTT": _field("tcp_sock", "rtt_min.s.v", 4),
    "O_TP_OUT": _field("tcp_sock", "packets_out", 4),
    "O_TP_MSS": _field("tcp_sock", "mss_cache", 4),
    "O_TP_ACKED": _field("tcp_sock", "bytes_acked", 8),
    "O_TP_RECEIVED": _field("tcp_sock", "bytes_received", 8),
    "O_SKB_ACK": Field((("sk_buff", "cb"), ("tcp_skb_cb", "ack_seq")), 4),
    "O_SKB_DEV": _field("sk_buff", "dev", 8),
    "O_SKB_LEN": _field("sk_buff", "len", 4),
    "O_SKB_NEXT": _field("sk_buff", "next", 8),
    "O_SKB_QUEUE": _field("sk_buff", "queue_mapping", 2),
    "O_DST_DEV": _field("dst_entry", "dev", 8),
    "O_DST_OPS": _field("dst_entry", "ops", 8),
    "O_OPS_FAMILY": _field("dst_ops", "family", 2),
    "O_RT_GW_FAMILY": _field("rtable", "rt_gw_family", 1),
    "O_RT_GW4": _field("rtable", "rt_gw4", 4),
    "O_RT_GW6": _field("rtable", "rt_gw6", 16),
    "O_RT6_FLAGS": _field("rt6_info", "rt6i_flags", 4),
    "O_RT6_GW": _field("rt6_info", "rt6i_gateway", 16),
    "O_DEV_NAME": _field("net_device", "name", 16),
    "O_DEV_INDEX": _field("net_device", "ifindex", 4),
    "O_DEV_NET": _field("net_device", "nd_net.net", 8),
    "O_DEV_TX": _field("net_device", "_tx", 8),
    "O_DEV_HASH": _field("net_device", "qdisc_hash", 128),
    "O_TXQ_DEV": _field("netdev_queue", "dev", 8),
    "O_TXQ_QDISC": _field("netdev_queue", "qdisc", 8),
    "O_Q_FLAGS": _field("Qdisc", "flags", 4),
    "O_Q_OPS": _field("Qdisc", "ops", 8),
    "O_Q_HANDLE": _field("Qdisc", "handle", 4),
    "O_Q_PARENT": _field("Qdisc", "parent", 4),
    "O_Q_TXQ": _field("Qdisc", "dev_queue", 8),
    "O_Q_HASH": _field("Qdisc", "hash", 16),
    "O_Q_QLEN": _field("Qdisc", "q.qlen", 4),
    "O_Q_BACKLOG": _field("Qdisc", "qstats.backlog", 4),
    "O_Q_DROPS": _field("Qdisc", "qstats.drops", 4),
    "O_QOPS_ID": _field("Qdisc_ops", "id", 16),
    "O_TASK_FILES": _field("task_struct", "files", 8),
    "O_FILES_TABLE": _field("files_struct", "fdt", 8),
    "O_FDTABLE_FD": _field("fdtable", "fd", 8),
    "O_FILE_PRIVATE": _field("file", "private_data", 8),
    "O_SOCKET_SK": _field("socket", "sk", 8),
    "O_REGS_CALL": _field("pt_regs", "syscallno", 4)
    if platform.machine() == "aarch64"
    else _field("pt_regs", "orig_ax", 8),
}
SIZES = {"S_TXQ": "netdev_queue"}
"""Sizes of structs that stand in arrays."""
TRACEPOINTS: dict[str, tuple[str | None, ...]] = {
    "tcp_probe": ("sock", "sk_buff"),
    "inet_sock_set_state": ("sock", None, None),
    "qdisc_enqueue": ("Qdisc", "netdev_queue", "sk_buff"),
    "qdisc_dequeue": ("Qdisc", "netdev_queue", None, "sk_buff"),
    "kfree_skb": ("sk_buff", None, None),
    "sys_exit": ("pt_regs", None),
}
"""The arguments that the programs rely on: the struct pointed to, or None for anything."""


class LayoutError(HostccError):
    """The running kernel lacks something that a tracing program reads."""


def defines(btf: Btf, source: str) -> dict[str, int]:
    """Macro to value, for every O_NAME and S_NAME that occurs in `source`.

    Raises LayoutError naming the member that is missing or has another size.
    """
    found: dict[str, int] = {}
    for name in sorted(set(_NAMES.findall(source))):
        if name in SIZES:
            found[name] = int(btf.dtype(_struct(btf, SIZES[name])).itemsize)
        elif name in FIELDS:
            found[name] = _offset(btf, FIELDS[name])
    return found


def check_tracepoint(btf: Btf, name: str) -> None:
    """Raise LayoutError unless the kernel has the tracepoint with the arguments expected."""
    try:
        pointer = btf.type(btf.find(f"btf_trace_{name}", frozenset({TYPEDEF}))).size_or_type
        rows = btf.type(btf.type(pointer).size_or_type).rows("=II")
    except KeyError:
        raise LayoutError(f"this kernel has no tracepoint {name}") from None
    given = [_pointee(btf, type_id) for _, type_id in rows[1:]]  # the first is the probe's data
    wanted = TRACEPOINTS[name]
    fits = len(given) >= len(wanted) and all(
        want in (None, got) for want, got in zip(wanted, given, strict=False)
    )
    if not fits:
        raise LayoutError(f"tracepoint {name}: expected arguments {wanted}, got {given}")


def drop_reasons(btf: Btf, part: str) -> tuple[int, ...]:
    """Values of the skb drop reasons whose name contains `part`."""
    return tuple(
        sorted(
            value
            for name, value in btf.enums().items()
            if name.startswith("SKB_DROP_REASON_") and part in name
        )
    )


def _offset(btf: Btf, field: Field) -> int:
    total, size = 0, 0
    for struct, path in field.steps:
        at = btf.dtype(_struct(btf, struct))
        for part in path.split("."):
            members = at.base.fields
            if members is None or part not in members:
                raise LayoutError(f"this kernel's struct {struct} has no {path}")
            at, offset = members[part][:2]
            total += int(offset)
        size = int(at.itemsize)
    if size != field.size:
        names = " ".join(f"{struct}.{path}" for struct, path in field.steps)
        raise LayoutError(f"{names}: expected {field.size} bytes, this kernel has {size}")
    return total


def _struct(btf: Btf, name: str) -> int:
    try:
        return btf.find(name, _STRUCTS)
    except KeyError:
        raise LayoutError(f"this kernel has no struct {name}") from None


def _pointee(btf: Btf, type_id: int) -> str:
    try:
        entry = btf.type(btf.resolve(type_id))
        return btf.type(btf.resolve(entry.size_or_type)).name if entry.kind == PTR else entry.name
    except FormatError:
        return ""
