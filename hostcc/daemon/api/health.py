"""Whether an agent is alive and ready, for load balancers and Kubernetes probes.  Pure."""

from __future__ import annotations

from hostcc.answers.parts import part_of
from hostcc.answers.status import Status

HEARTBEAT = "heartbeat"
"""The step of the agent's tick that writes the heartbeat."""


def unhealthy(status: Status) -> str:
    """Say why the agent does not do its work; empty: it does.  That it answers is half of it."""
    why = status.agent.loop.failing.get(HEARTBEAT)
    return f"the heartbeat cannot be written: {why}" if why else ""


def unready(status: Status) -> str:
    """Say which part that is on does not run; empty: all do, or the agent only observes."""
    if why := unhealthy(status):
        return why
    failed = [part for part in map(part_of, status.parts) if part.state == "failed"]
    return "; ".join(f"part {part.name} failed: {part.reason}" for part in failed)
