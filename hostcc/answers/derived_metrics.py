"""Metrics that are no single field of an answer: counts and states made out of several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from hostcc.answers.fields import JOB_LABEL


@dataclass(frozen=True)
class DerivedMetric:
    """A metric by name, type and words, as Prometheus shows it."""

    kind: Literal["counter", "gauge", "histogram", "info"]
    name: str
    """Without the ending that Prometheus adds: `_total` of counters, `_info`."""
    help: str
    labels: tuple[str, ...] = ()

    def family(self, core: Any, value: float | None = None) -> Any:
        """Make its family; `core`: module prometheus_client.core, `value`: only without labels."""
        make = getattr(core, f"{self.kind.title()}MetricFamily")
        if value is not None:
            return make(self.name, self.help, value=value)
        return make(self.name, self.help, labels=self.labels)


ACTIVE = DerivedMetric(
    "gauge", "hostcc_agent_active", "1 while the agent acts, 0 while it observes"
)
HELD = DerivedMetric(
    "gauge", "hostcc_agent_held", "1 while an operator has turned it off for good (--hold)"
)
BUILD = DerivedMetric("info", "hostcc_build", "The agent's release", ("version",))
FAILING = DerivedMetric(
    "gauge", "hostcc_agent_failing", "Pieces of the agent's tick that failed at their last turn"
)
SLOTS = DerivedMetric("gauge", "hostcc_agent_slots", "Job slots, by who has them", ("who",))
PART_UP = DerivedMetric(
    "gauge", "hostcc_part_up", "1 while the part runs, 0 while it fails", ("part",)
)
STRAY_PACKETS = DerivedMetric(
    "counter", "hostcc_stray_packets", "Packets that fit no moved flow and ended none, by kind",
    ("kind",),
)  # fmt: skip
PLAN_FOLLOWED = DerivedMetric(
    "gauge", "hostcc_plan_followed", "1 while a plan holds, 0 while defaults are in force"
)
PLAN_AGREED = DerivedMetric(
    "gauge", "hostcc_plan_agreed", "1 if the members that matter agreed on it"
)
MEMBERS = DerivedMetric(
    "gauge", "hostcc_gossip_members", "Other members, by their state", ("state",)
)
SEEDS = DerivedMetric(
    "gauge", "hostcc_gossip_seeds", "Seeds of the configuration, by whether they are reached",
    ("state",),
)  # fmt: skip
MEMBERS_UNLIKE = DerivedMetric(
    "gauge", "hostcc_gossip_members_unlike",
    "Members that have another value of what plans depend on than this host", ("option",),
)  # fmt: skip
TROUBLES = DerivedMetric(
    "gauge", "hostcc_gossip_troubles",
    "Why others are not reached, or not let in: with how many that is so", ("reason",),
)  # fmt: skip
GOSSIP_PROCESS_UP = DerivedMetric(
    "gauge", "hostcc_gossip_process_up",
    "Whether the process that has the gossip's connections runs",
)  # fmt: skip
LARGE_FLOWS = DerivedMetric(
    "gauge", "hostcc_large_flows", "Flows worth a path, by where they are", ("state",)
)
PATHS_KNOWN = DerivedMetric(
    "gauge", "hostcc_paths_known", "Destinations of which the paths are known"
)
ITERATION_TIMES = DerivedMetric(
    "histogram", "hostcc_job_iteration_seconds", "Iteration times, since the job appeared",
    (JOB_LABEL,),
)  # fmt: skip

DERIVED = (
    ACTIVE, HELD, BUILD, FAILING, SLOTS, PART_UP, STRAY_PACKETS, PLAN_FOLLOWED, PLAN_AGREED,
    MEMBERS, SEEDS, MEMBERS_UNLIKE, TROUBLES, GOSSIP_PROCESS_UP, LARGE_FLOWS, PATHS_KNOWN,
    ITERATION_TIMES,
)  # fmt: skip
