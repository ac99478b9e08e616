"""What a scenario does in mid-run: switch unfairness, kill agents, run commands."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from hostcc.errors import InputError
from hostcc.lab import agents
from hostcc.lab.scenario import ActionSpec

COMMAND_PATIENCE_S = 60
CLIENT_VERBS = ("unfair", "rollback")
"""Commands of the client that go to every agent."""


@dataclass
class Pending:
    """Actions that are still to come, in the scenario's order."""

    specs: list[ActionSpec]

    def due(self, elapsed_s: float, iterations: int) -> list[ActionSpec]:
        """Take out those whose time or iteration has come."""
        now = [
            spec
            for spec in self.specs
            if (spec.at_ms is not None and elapsed_s * 1e3 >= spec.at_ms)
            or (spec.at_iteration is not None and iterations >= spec.at_iteration)
        ]
        self.specs = [spec for spec in self.specs if spec not in now]
        return now

    def next_in(self, elapsed_s: float) -> float | None:
        """Seconds to the next timed action; None: there is none."""
        times = [spec.at_ms / 1e3 - elapsed_s for spec in self.specs if spec.at_ms is not None]
        return max(0.0, min(times)) if times else None


def label(spec: ActionSpec) -> str:
    """The action in one line."""
    return spec.run if isinstance(spec.run, str) else " ".join(spec.run)


def perform(spec: ActionSpec, running: Sequence[agents.Agent]) -> str:
    """Perform an action; returns what went wrong, or an empty string.

    Without agents, all but commands do nothing: the same scenario serves variants that have none.
    """
    if not isinstance(spec.run, str):
        return _command(spec.run)
    verb, *rest = spec.run.split()
    if verb in CLIENT_VERBS:
        living = [agent for agent in running if agent.process.poll() is None]
        return "; ".join(agents.control(living, [verb, *rest]))
    chosen = select(rest, running)
    agents.kill(chosen)
    return ""


def select(targets: Sequence[str], running: Sequence[agents.Agent]) -> list[agents.Agent]:
    """Agents named by host (`h1`), by job, or `all`; raises InputError for none."""
    if not running:
        return []
    chosen = [
        agent
        for agent in running
        if "all" in targets or agent.host.name in targets or agent.jobs & set(targets)
    ]
    if not chosen:
        known = ", ".join(agent.host.name for agent in running)
        raise InputError(f"{' '.join(targets)}: expected all, a job, or {known}")
    return chosen


def _command(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_PATIENCE_S,
            env=dict(os.environ),
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return "" if done.returncode == 0 else " ".join(done.stderr.split()) or "failed"
