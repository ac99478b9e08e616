"""Changes that steering and marking make, with stable identifiers.  Pure."""

from __future__ import annotations

from collections.abc import Mapping

from hostcc.model import Change
from hostcc.paths.mark_kernel import MAX_CLAMP, JobMark
from hostcc.paths.shares import MAX_PACE_BPS

HOOKS, PORTS, MARKS = "steer-hooks", "reserved-ports", "job-mark"


def hooks(device: str, netns: int) -> Change:
    """Attach programs to a device's ingress and egress; they outlive the agent (see hooks.py).

    `netns`: the number of the network namespace that the device is in.
    """
    return Change(
        id=f"{HOOKS}:{device}",
        what=HOOKS,
        target=device,
        before="none",
        after={"programs": "steer_egress, steer_ingress", "netns": netns},
        why="TCP flows are moved between paths",
        undo="detach both, egress first",
    )


def reserved_ports(before: str, after: str, netns: int) -> Change:
    """Keep the kernel from giving out ports of the range that steering uses."""
    return Change(
        id=PORTS,
        what=PORTS,
        target="net.ipv4.ip_local_reserved_ports",
        before=before,
        after={"ports": after, "netns": netns},
        why="ports on the wire must be nobody's own",
        undo="take these ports out again",
    )


def job_of(change: Change) -> str:
    """The job of a `job-mark` change."""
    return change.id.removeprefix(f"{MARKS}:")


def stray_of(change: Change) -> JobMark:
    """What an agent that died may have left on a job's sockets by a `job-mark` change."""
    after = change.after if isinstance(change.after, Mapping) else {}

    def part(name: str, most: float) -> float:
        value = after.get(name)
        return value if isinstance(value, int | float) and 0 < value <= most else 0

    return JobMark(
        stray=int(part("dscp", 63)) << 2,
        stray_pace_bps=part("bytes_per_s", MAX_PACE_BPS),
        stray_clamp=int(part("window_packets", MAX_CLAMP)),
    )


def mark(
    job: str, tos: int | None, why: str, pace_bps: float | None = None, window: int | None = None
) -> Change:
    """Give a job's sockets a DSCP, a pace (bytes/s each), a bound of the window (packets).

    None: as they are.
    """
    parts = {
        "dscp": None if tos is None else tos >> 2,
        "bytes_per_s": pace_bps,
        "window_packets": window,
    }
    return Change(
        id=f"{MARKS}:{job}",
        what=MARKS,
        target=f"job {job}",
        before="as its applications set it",
        after={name: value for name, value in parts.items() if value is not None},
        why=why,
        undo="give each socket back what it had",
    )
