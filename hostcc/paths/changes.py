"""What steering and marking change on this host, as Changes with stable identifiers.  Pure."""

from __future__ import annotations

from hostcc.model import Change

HOOKS, PORTS, MARKS = "steer-hooks", "reserved-ports", "job-mark"


def hooks(device: str, way: str) -> Change:
    """Programs at a device's ingress and egress; they outlive the agent (see hooks.py)."""
    return Change(
        id=f"{HOOKS}:{device}",
        what=HOOKS,
        target=device,
        before="none",
        after=f"steer_egress, steer_ingress by {way}",
        why="TCP flows are moved between paths",
        undo="detach both, egress first",
    )


def reserved_ports(before: str, after: str) -> Change:
    """The kernel gives out no port of the range that steering uses."""
    return Change(
        id=PORTS,
        what=PORTS,
        target="net.ipv4.ip_local_reserved_ports",
        before=before,
        after=after,
        why="ports on the wire must be nobody's own",
        undo="write it back",
    )


def mark(job: str, tos: int, why: str) -> Change:
    """A job's sockets get a DSCP."""
    return Change(
        id=f"{MARKS}:{job}",
        what=MARKS,
        target=f"job {job}",
        before="as its applications set it",
        after={"dscp": tos >> 2},
        why=why,
        undo="give each socket back what it had",
    )
