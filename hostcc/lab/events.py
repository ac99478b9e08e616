"""What happens in mid-run: the fabric fails, agents die and return, jobs come and go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hostcc.lab import actions, agents, gossip_setup
from hostcc.lab.errors import LabError
from hostcc.lab.leafspine_lab import LeafSpineLab
from hostcc.lab.network import Network
from hostcc.lab.phase_watch import Watch
from hostcc.lab.scenario import ActionSpec, Scenario


@dataclass(frozen=True)
class Stage:
    """What events act on."""

    network: Network
    agents: Sequence[agents.Agent]
    watch: Watch
    start_job: Callable[[str], None]


def started_later(scenario: Scenario) -> frozenset[str]:
    """Jobs that begin with an event."""
    words = [spec.run.split() for spec in scenario.action if isinstance(spec.run, str)]
    return frozenset(word[1] for word in words if word[0] == "start-job")


def perform(spec: ActionSpec, stage: Stage) -> str:
    """Perform an event; returns what went wrong, or an empty string."""
    if not isinstance(spec.run, str):
        return actions.perform(spec, stage.agents)
    verb, *words = spec.run.split()
    if verb == "start-job":
        stage.start_job(words[0])
    elif verb == "stop-job":
        stage.watch.stop(words)
    elif verb == "start-agent":
        agents.restart(stage.network, actions.select(words, stage.agents))
    elif verb == "restart-agent":
        return agents.renew(stage.network, actions.select(words, stage.agents))
    elif isinstance(stage.network, LeafSpineLab) and verb in FABRIC:
        try:
            FABRIC[verb](stage, words)
        except LabError as error:
            return str(error)
    else:
        return actions.perform(spec, stage.agents)
    return ""


def _cut(stage: Stage, words: list[str]) -> None:
    fabric = _fabric(stage)
    if "all" in words:
        fabric.cut_gossip([host.name for host in fabric.hosts], gossip_setup.PORT)
    elif named := [agent.host.name for agent in actions.select(words, stage.agents)]:
        fabric.cut_gossip(named, gossip_setup.PORT)


def _fabric(stage: Stage) -> LeafSpineLab:
    assert isinstance(stage.network, LeafSpineLab)
    return stage.network


FABRIC: dict[str, Callable[[Stage, list[str]], None]] = {
    "spine-down": lambda stage, words: _fabric(stage).spine_down(int(words[0])),
    "spine-up": lambda stage, words: _fabric(stage).spine_up(int(words[0])),
    "uplink": lambda stage, words: _fabric(stage).set_rate(
        words[0], int(words[1]), float(words[2])
    ),
    "cut-gossip": _cut,
    "heal-gossip": lambda stage, _: _fabric(stage).heal_gossip(),
}
