"""Moves flows in the kernel: maps and programs of steer.bpf.c on this host's devices.

All of it is idempotent; steering_protocol.py decides when.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, cast

import numpy as np

from hostcc.bpf.loader.errors import BpfError
from hostcc.bpf.loader.links import BpfLink
from hostcc.bpf.loader.maps import BpfMap
from hostcc.bpf.loader.netns import in_netns
from hostcc.bpf.loader.object import BpfObject
from hostcc.bpf.loader.objects import object_path
from hostcc.paths import hooks
from hostcc.paths.hooks import EGRESS, INGRESS, Way
from hostcc.paths.steering_messages import Broken, FlowKey

T = TypeVar("T")
PROGRAMS = {EGRESS: "steer_egress", INGRESS: "steer_ingress"}
SHARED = ("steer_out", "steer_in", "steer_conf")
"""Maps that a new agent takes over from the last one's programs."""


@dataclass(frozen=True)
class OutgoingFlow:
    """A flow that leaves this host rewritten."""

    flow: FlowKey
    wire_port: int
    """0: by flow label."""
    label: int
    packets: int
    first_ns: int
    """CLOCK_MONOTONIC of the first packet; 0: none yet."""
    broken: Broken


@dataclass(frozen=True)
class IncomingFlow:
    """A flow that arrives with a port on the wire, and the port that it is given back."""

    wire: FlowKey
    port: int
    packets: int
    stamp: int
    """Stamp of the message that asked for it."""
    idle_s: float


@dataclass(frozen=True)
class _BorrowedMap:
    # A map by its descriptor: as much of a BpfMap as BpfObject.reuse_map wants.
    fd: int


class SteerKernel:
    """Programs on the devices of one network namespace; raises BpfError.

    `stale_s`: without `beat` for so long nothing leaves rewritten.  `keep_s`: what arrives is
    translated until it has been unused for so long.  Programs and tables outlive this object unless
    `remove` is called; `close` releases descriptors only.
    """

    def __init__(
        self,
        devices: Sequence[str],
        netns: Path | None = None,
        stale_s: float = 3.0,
        keep_s: float = 900.0,
        way: Way | None = None,
    ) -> None:
        self._netns = netns
        self._times = (int(stale_s * 1e9), int(keep_s * 1e9))
        self._devices = {name: self._here(partial(_ifindex, name)) for name in devices}
        self._links: dict[Path, list[BpfLink]] = {}
        self.adopted = False
        """Whether an earlier agent's tables were taken over."""
        with contextlib.ExitStack() as stack:
            self._object = stack.enter_context(BpfObject.open(object_path("steer")))
            self._adopt()
            self._object.load()
            self._out, self._in = self._object.map("steer_out"), self._object.map("steer_in")
            self._strays = self._object.map("steer_strays")
            self._conf, self._binds = (
                self._object.map("steer_conf"),
                self._object.map("steer_binds"),
            )
            self.beat()
            for ifindex in self._devices.values():
                self._here(partial(self._attach, ifindex, way))
            stack.pop_all()

    # Life

    def beat(self) -> None:
        """Write the heartbeat."""
        self._conf.update(0, (time.monotonic_ns(), *self._times))

    def check(self) -> list[str]:
        """Name the hooks that somebody else has emptied."""
        missing = []
        for name, ifindex in self._devices.items():
            for hook, program in PROGRAMS.items():
                if not self._here(partial(hooks.attached, ifindex, hook, [program])):
                    missing.append(f"{program} is no longer at {hook} of {name}")
        return missing

    def remove(self) -> None:
        """Detach from all devices and close: flows leave as their sockets make them."""
        for ifindex in self._devices.values():
            self._here(partial(_detach_all, ifindex))
        self.close()

    def close(self) -> None:
        """Close; programs on devices stay, those on cgroups do not."""
        for cgroup in list(self._links):
            self.detach_connect(cgroup)
        self._object.close()

    def __enter__(self) -> SteerKernel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()

    # Sender

    def rewrite(self, flow: FlowKey, wire_port: int) -> None:
        """Let a flow leave with another source port; the receiver must know it already."""
        self._out.update(_key(flow.on_wire(wire_port)), _out(self._out, "STEER_GUARD", self._enum,
                                                            port=flow.sport))  # fmt: skip
        self._out.update(_key(flow), _out(self._out, "STEER_REWRITE", self._enum, port=wire_port))

    def label(self, flow: FlowKey, label: int) -> None:
        """Let an IPv6 flow leave with another flow label; the receiver need not know."""
        self._out.update(_key(flow), _out(self._out, "STEER_LABEL", self._enum, label=label))

    def plain(self, flow: FlowKey) -> None:
        """Let a flow leave as its socket makes it.  The guard of its port stays."""
        self._out.delete(_key(flow))

    def unguard(self, wire: FlowKey) -> None:
        """Forget a port on the wire, once nothing about it can come back any more."""
        self._out.delete(_key(wire))

    def leaving(self) -> list[OutgoingFlow]:
        """List all flows that leave rewritten, or would."""
        keys, values = self._out.lookup_batch()
        wanted = (self._enum("STEER_REWRITE"), self._enum("STEER_LABEL"))
        return [
            OutgoingFlow(
                _flow(key), int(value["port"]), int(value["label"]), int(value["packets"]),
                int(value["first_ns"]), Broken(int(value["broken"])),
            )
            for key, value in zip(keys, values, strict=True)
            if int(value["kind"]) in wanted
        ]  # fmt: skip

    def guards(self) -> list[tuple[FlowKey, int]]:
        """List the guarded flows on the wire, with their own ports."""
        keys, values = self._out.lookup_batch()
        guard = self._enum("STEER_GUARD")
        return [
            (_flow(key), int(value["port"]))
            for key, value in zip(keys, values, strict=True)
            if int(value["kind"]) == guard
        ]

    # Receiver

    def accept(self, wire: FlowKey, port: int, stamp: int) -> None:
        """Translate what arrives with `wire` to its own port; again: renew that."""
        self._in.update(_key(wire), (time.monotonic_ns(), 0, stamp, 0, port, 0))

    def forget(self, wire: FlowKey) -> None:
        """Stop translating a flow."""
        self._in.delete(_key(wire))

    def arriving(self) -> list[IncomingFlow]:
        """List all translations in force."""
        keys, values = self._in.lookup_batch()
        now = time.monotonic_ns()
        return [
            IncomingFlow(_flow(key), int(value["port"]), int(value["packets"]), int(value["stamp"]),
                     max(0, now - int(value["used_ns"])) / 1e9)
            for key, value in zip(keys, values, strict=True)
        ]  # fmt: skip

    # New connections

    def attach_connect(self, cgroup: Path) -> None:
        """Choose source ports of connections made in and below a cgroup v2 directory."""
        fd = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for program in ("steer_connect4", "steer_connect6"):
                links = self._links.setdefault(cgroup, [])
                links.append(self._object.attach_cgroup(program, fd))
        finally:
            os.close(fd)

    def detach_connect(self, cgroup: Path) -> None:
        """Stop choosing source ports there."""
        for link in self._links.pop(cgroup, ()):
            link.close()

    def set_ports(self, dst: str, dst_port: int, ports: Iterable[int]) -> None:
        """Set the source ports of new connections to a destination (port 0: any); none: the
        kernel's."""
        key = (_packed(dst), dst_port, 0)
        most = self._binds.value_dtype["port"].shape[0]
        chosen = list(ports)[:most]
        if not chosen:
            self._binds.delete(key)
            return
        padded = chosen + [0] * (most - len(chosen))
        self._binds.update(key, (len(chosen), 0, 0, 0, padded))

    def bound(self, dst: str, dst_port: int = 0) -> tuple[int, int]:
        """Count connections since set_ports: (with a port of the list, without)."""
        value = self._binds.lookup((_packed(dst), dst_port, 0))
        return (0, 0) if value is None else (int(value["bound"]), int(value["failed"]))

    def strays(self) -> dict[str, int]:
        """Count packets of strangers that ended nothing.

        Resets and SYNs that fit no flow, and fitting resets above the limit of STEER_RESETS a
        second.
        """
        value = self._strays.lookup(0)
        return {name: int(value[name]) for name in ("resets", "syns", "over")}

    def program_stats(self) -> Any:
        """Read runs and time of the programs; see bpf.loader.stats."""
        return self._object.program_stats()

    # Inside

    def _here(self, function: Callable[[], T]) -> T:
        return in_netns(self._netns, function)

    def _enum(self, name: str) -> int:
        return self._object.enums[name]

    def _adopt(self) -> None:
        # Take over the tables that the last agent's programs still work with.
        for ifindex in self._devices.values():
            found = self._here(partial(hooks.attached, ifindex, INGRESS, [PROGRAMS[INGRESS]]))
            if not found:
                continue
            old = hooks.map_fds(found[0].prog_id)
            try:
                for name in SHARED:
                    fd, shape = old.get(name, (-1, ()))
                    mine = self._object.map(name)
                    if shape[:2] != (mine.key_dtype.itemsize, mine.value_dtype.itemsize):
                        raise BpfError(
                            f"{name}: left by another version of hostcc; run hostcc rollback first"
                        )
                    self._object.reuse_map(name, cast("BpfMap", _BorrowedMap(fd)))
            finally:
                for fd, _ in old.values():
                    os.close(fd)
            self.adopted = True
            return

    def _attach(self, ifindex: int, way: Way | None) -> None:
        # Put ours beside what an earlier agent left, then take that away.
        for hook, program in PROGRAMS.items():
            old = hooks.attached(ifindex, hook, [program])
            hooks.attach(self._object.program_fd(program), ifindex, hook, program, way)
            for one in old:
                hooks.detach(ifindex, one)


def remove_all(devices: Sequence[str], netns: Path | None = None) -> None:
    """Detach what any agent left on these devices, as `hostcc rollback` does."""
    for name in devices:
        in_netns(netns, partial(_detach_named, name))


def _detach_named(name: str) -> None:
    _detach_all(_ifindex(name))


def _detach_all(ifindex: int) -> None:
    # Egress first: nothing must leave rewritten once replies are no longer understood.
    for hook, program in PROGRAMS.items():
        for one in hooks.attached(ifindex, hook, [program]):
            hooks.detach(ifindex, one)


def _ifindex(name: str) -> int:
    try:
        return socket.if_nametoindex(name)
    except OSError as error:
        raise BpfError(f"device {name}: {error.strerror}") from None


def _out(
    table: BpfMap, kind: str, enum: Callable[[str], int], port: int = 0, label: int = 0
) -> Any:
    value = np.zeros((), table.value_dtype)
    value["kind"], value["port"], value["label"] = enum(kind), port, label
    return value[()]


def _key(flow: FlowKey) -> tuple[Any, ...]:
    return (_packed(flow.src), _packed(flow.dst), flow.sport, flow.dport)


def _flow(key: Any) -> FlowKey:
    return FlowKey(
        _address(key["src"]), _address(key["dst"]), int(key["sport"]), int(key["dport"])
    )  # fmt: skip


def _packed(address: str) -> list[int]:
    parsed = ipaddress.ip_address(address)
    raw = parsed.packed if parsed.version == 6 else b"\0" * 10 + b"\xff\xff" + parsed.packed
    return list(raw)


def _address(raw: Any) -> str:
    parsed = ipaddress.IPv6Address(bytes(raw))
    return str(parsed.ipv4_mapped or parsed)
