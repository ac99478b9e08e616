"""Count at the spines which path each flow of a leaf-spine fabric takes."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping, Sequence

from hostcc.bpf.loader.errors import BpfError
from hostcc.bpf.loader.object import BpfObject
from hostcc.lab import compile as compiler
from hostcc.lab import netns
from hostcc.lab.errors import LabError
from hostcc.lab.segments import Segment
from hostcc.paths import hooks

SOURCE, PROGRAM, SEGMENTS_MAP, RESETS_MAP = "leafspine_flows.bpf.c", "see_flow", "ways", "resets"


class FlowTable:
    """Counts of all spines; `close` lets go of them, the programs end with their namespaces."""

    def __init__(self, spines: Mapping[str, Sequence[str]]) -> None:
        """`spines`: namespace of each spine, from the first -> its devices.  Raises LabError."""
        program = compiler.bpf_object(SOURCE)
        self._objects: list[BpfObject] = []
        try:
            for namespace, devices in spines.items():
                one = BpfObject.open(program)
                self._objects.append(one)
                one.load()
                fd = one.program_fd(PROGRAM)
                netns.inside(namespace, lambda fd=fd, devices=devices: _attach(fd, devices))  # type: ignore[misc]
        except BpfError as error:
            self.close()
            raise LabError(f"{SOURCE}: {error}") from error

    def read(self) -> tuple[Segment, ...]:
        """All segments since the last `clear`, in no order."""
        found = []
        for spine, one in enumerate(self._objects, 1):
            keys, values = one.map(SEGMENTS_MAP).lookup_batch()
            for key, value in zip(keys, values, strict=True):
                found.append(
                    Segment(
                        str(ipaddress.IPv4Address(int(key["src"]))),
                        str(ipaddress.IPv4Address(int(key["dst"]))),
                        int(key["dst_port"]),
                        int(key["src_port"]),
                        spine,
                        int(key["dscp"]),
                        int(value["bytes"]),
                        int(value["first_ns"]) / 1e9,
                        int(value["last_ns"]) / 1e9,
                    )
                )
        return tuple(found)

    def resets(self) -> int:
        """Resets of jobs' connections that have passed so far."""
        return sum(int(one.map(RESETS_MAP).lookup(0)) for one in self._objects)

    def clear(self) -> None:
        """Forget all segments."""
        for one in self._objects:
            one.map(SEGMENTS_MAP).clear()

    def close(self) -> None:
        """Free the counts."""
        for one in self._objects:
            one.close()
        self._objects.clear()


def _attach(fd: int, devices: Sequence[str]) -> None:
    for device in devices:
        hooks.attach(fd, socket.if_nametoindex(device), hooks.INGRESS, PROGRAM)
