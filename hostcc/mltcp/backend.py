"""The kernel as the agent sees it: one interface, a real adapter and a fake for unit tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hostcc.mltcp.params import JobParams

Records = npt.NDArray[np.void]
"""A one-dimensional structured array; the fields are those of the C struct in bpf/intf.h."""


@dataclass(frozen=True)
class SwitchResult:
    """Outcome of one pass over the sockets of some network namespaces."""

    seen: int
    """Sockets that belong to a job."""
    switched: int
    """Sockets whose congestion control was changed."""
    failed: int
    """Sockets that refused."""


class MltcpBackend(Protocol):
    """Puts jobs' sockets on a congestion control and reports what they do.

    Slots number the jobs, 1 to HCC_MAX_JOBS - 1.  Every method may raise
    hostcc.bpf.loader.errors.BpfError; after `close` the host is as it was before.
    """

    @property
    def ca_names(self) -> Mapping[str, str]:
        """Variant -> the name registered with the kernel."""

    @property
    def shared_maps(self) -> Mapping[str, Any]:
        """Name -> BpfMap that the byte meter uses, too; empty: there is none."""

    def beat(self) -> None:
        """The agent is alive: without this for stale_s, sockets act as their plain form."""

    def set_job(self, slot: int, params: JobParams | None) -> None:
        """Write a job's parameters; None clears the slot."""

    def attach_cgroup(self, slot: int, cgroup: Path) -> None:
        """Sockets made below `cgroup` from now on belong to `slot`, which may have several."""

    def detach_cgroup(self, slot: int, cgroup: Path | None = None) -> None:
        """Undo `attach_cgroup` of one cgroup, or of all that the slot has."""

    def attach_root(self, cgroup: Path) -> None:
        """Apply port rules to sockets below `cgroup`."""

    def set_port_rules(self, rules: Mapping[tuple[int, bool], int]) -> None:
        """(port, is_remote) -> slot; replaces the earlier rules."""

    def set_cgroup_ids(self, ids: Mapping[int, int]) -> None:
        """cgroup id -> slot, for sockets that exist already; replaces the earlier ids."""

    def switch_sockets(
        self, netns: Sequence[Path | None], slot: int = 0, to_default: bool = False
    ) -> SwitchResult:
        """Visit existing sockets of each namespace (None: our own) and give them their job's
        congestion control, or the host's default."""

    def job_states(self) -> Records:
        """One row per slot, struct hcc_job_state."""

    def flows(self, netns: Sequence[Path | None]) -> Records:
        """One row per TCP socket of a job, struct hcc_flow_record."""

    def events(self) -> Records:
        """Iterations that have ended since the last call, struct hcc_event."""

    def program_stats(self) -> list[dict[str, Any]]:
        """Run counts and times of our programs, when the kernel collects them."""

    def check(self) -> list[str]:
        """What is no longer as we set it, in words; empty when all is in force."""

    def close(self) -> None:
        """Detach everything."""
