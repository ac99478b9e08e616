"""The interface to the kernel's congestion control; tests have a fake behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hostcc.mltcp.params import JobParams
from hostcc.model import BoundaryHint

Records = npt.NDArray[np.void]
"""A one-dimensional structured array with the fields of the C struct in bpf/programs/intf.h."""


@dataclass(frozen=True)
class SwitchResult:
    """Counts of one pass over the sockets of some network namespaces."""

    seen: int
    """Sockets that belong to a job."""
    switched: int
    """Sockets whose congestion control was changed."""
    failed: int
    """Sockets whose congestion control the kernel refused to change."""


class MltcpBackend(Protocol):
    """Puts jobs' sockets on a congestion control and reports their state.

    Slots number the jobs, 1 to HCC_MAX_JOBS - 1. Every method may raise
    hostcc.bpf.loader.errors.BpfError. After `close` the host is as it was before.
    """

    @property
    def ca_names(self) -> Mapping[str, str]:
        """Variant -> the name registered with the kernel."""

    @property
    def shared_maps(self) -> Mapping[str, Any]:
        """Name -> BpfMap that the byte meter uses as well; empty: none."""

    def beat(self) -> None:
        """Write the heartbeat; without one for `stale_s`, sockets act as the plain algorithm."""

    def set_job(self, slot: int, params: JobParams | None) -> None:
        """Write a job's parameters; None clears the slot."""

    def set_hint(self, slot: int, hint: BoundaryHint | None) -> None:
        """Give a job its boundary hint; None takes it back, and so does clearing the slot."""

    def set_gate(self, slot: int, *, armed: bool, closed_until_ns: int = 0) -> None:
        """Hold what the job begins to send before `closed_until_ns` (CLOCK_MONOTONIC), until then
        or until this is called anew; `armed`: report its bursts, so that it can be held at all."""

    def attach_cgroup(self, slot: int, cgroup: Path) -> None:
        """Assign new sockets below `cgroup` to `slot`, which may have several cgroups."""

    def detach_cgroup(self, slot: int, cgroup: Path | None = None) -> None:
        """Undo `attach_cgroup` for one cgroup, or for all of the slot."""

    def attach_root(self, cgroup: Path) -> None:
        """Apply port rules to sockets below `cgroup`."""

    def set_port_rules(self, rules: Mapping[tuple[int, bool], int]) -> None:
        """Replace the port rules: (port, is_remote) -> slot."""

    def set_cgroup_ids(self, ids: Mapping[int, int]) -> None:
        """Replace the cgroup ids of existing sockets: id -> slot."""

    def switch_sockets(
        self, netns: Sequence[Path | None], slot: int = 0, to_default: bool = False
    ) -> SwitchResult:
        """Set the congestion control of existing sockets: their job's, or the host's default.

        Visits each network namespace in `netns`; None is the agent's own.
        """

    def job_states(self) -> Records:
        """Return one row of struct hcc_job_state per slot."""

    def flows(self, netns: Sequence[Path | None]) -> Records:
        """Return one row of struct hcc_flow_record per TCP socket of a job."""

    def events(self) -> Records:
        """Return what was reported since the last call, as struct hcc_event: iterations that
        ended, and bursts of jobs whose gate is armed."""

    @property
    def events_fd(self) -> int:
        """Descriptor that becomes readable when something is reported; -1: there is none."""

    def program_stats(self) -> list[dict[str, Any]]:
        """Return run counts and times of the BPF programs, if the kernel collects them."""

    def check(self) -> list[str]:
        """Return in words what has been changed by others; empty: all is in force."""

    def close(self) -> None:
        """Detach and unregister everything."""
