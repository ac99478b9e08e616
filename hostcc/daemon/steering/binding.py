"""Gives jobs' new connections a source port of their planned path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from hostcc.bpf.loader.errors import BpfError
from hostcc.daemon.steering import decision
from hostcc.model import PathTable
from hostcc.paths.steer_kernel import SteerKernel

PORTS_PER_DESTINATION = 32
"""Ports to choose from for each destination (STEER_BIND_PORTS)."""


class Binding:
    """Keeps jobs' cgroups and the kernel's table of ports in line with the plan."""

    def __init__(self, kernel: SteerKernel) -> None:
        self._kernel = kernel
        self._groups: set[Path] = set()
        self._ports: dict[tuple[str, int], tuple[int, ...]] = {}

    def sync(
        self,
        groups: Sequence[Path],
        flows: Iterable[tuple[tuple[str, int], str, PathTable]],
        taken: frozenset[int],
        ports: tuple[int, int],
    ) -> None:
        """Set ports as decision.new_connections says, for processes of `groups`.  Raises BpfError.

        `taken`: ports on the wire.  Ports of sockets are not looked for: the kernel tries the
        next one of the list.
        """
        for group in self._groups - set(groups):
            self._kernel.detach_connect(group)
            self._groups.discard(group)
        for group in set(groups) - self._groups:
            try:
                self._kernel.attach_connect(group)
            except FileNotFoundError:  # the job has just ended
                continue
            self._groups.add(group)
        wanted = decision.new_connections(flows, taken, PORTS_PER_DESTINATION, ports)
        for at in self._ports.keys() - wanted.keys():
            self._kernel.set_ports(*at, ())
            del self._ports[at]
        for at, chosen in wanted.items():
            if self._ports.get(at) != chosen:
                self._kernel.set_ports(*at, chosen)
                self._ports[at] = chosen

    def counts(self) -> dict[str, int]:
        """Count connections that got a port of the planned path, and those that did not."""
        try:
            found = [self._kernel.bound(*at) for at in self._ports]
        except BpfError:
            return {}
        return {"bound": sum(one[0] for one in found), "left": sum(one[1] for one in found)}

    def close(self) -> None:
        """Stop choosing ports."""
        for group in self._groups:
            self._kernel.detach_connect(group)
        self._groups, self._ports = set(), {}
