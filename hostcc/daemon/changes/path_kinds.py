"""Changes that steering and marking make, with stable identifiers.  Pure."""

from __future__ import annotations

from collections.abc import Mapping

from hostcc.model import Change

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


def tos_of(change: Change) -> int:
    """The ToS byte of a `job-mark` change; 0 if it names none."""
    dscp = change.after.get("dscp") if isinstance(change.after, Mapping) else None
    return dscp << 2 if isinstance(dscp, int) and 0 <= dscp <= 63 else 0


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
