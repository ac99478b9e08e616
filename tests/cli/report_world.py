"""A cluster made up for reports: jobs on a leaf-spine fabric, their plan, and an hour of theirs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from hostcc.answers.history import History
from hostcc.answers.host import Changes
from hostcc.answers.status import Status
from hostcc.cli import report_evidence
from hostcc.cli.report_evidence import Evidence
from hostcc.model import ClusterView, Flow, JobProfile, Path, PathTable
from hostcc.schedule.link_rows import list_links
from hostcc.schedule.plan import Options, solve_for_agents
from hostcc.schedule.plan_writer import write_plan
from tests.cli.test_tables import AGENT, GOSSIP, JOB

HOSTS, LEAVES, SPINES = 8, 4, 4
RATE = 12.5e9
AT = 1_800_000_000.0
HOSTILE = (
    '<script>alert("x")</script>', "</style><img src=x onerror=alert(1)>", "a\x1b[2J\x1b]0;x\x07b",
    "x\u202ey\n<b>", "'\"&amp;--><!--",
)  # fmt: skip
"""Names that an agent would not let a job have, but an archive may."""


def view(names: Sequence[str]) -> ClusterView:
    """A job on two hosts each, over four spines."""
    tables, flows, jobs = [], [], []
    for src in range(HOSTS):
        for dst in range(HOSTS):
            up, down = src // 2, dst // 2
            if up != down:
                ways = tuple(
                    Path(f"s{spine}", (f"h{src}>leaf{up}", f"leaf{up}>spine{spine}",
                                       f"spine{spine}>leaf{down}", f"leaf{down}>h{dst}"))
                    for spine in range(SPINES)
                )  # fmt: skip
                tables.append(PathTable(f"h{src}", f"h{dst}", ways))
    for at, name in enumerate(names):
        src, dst = at % HOSTS, (at * 3 + 2) % HOSTS
        dst = (dst + 2) % HOSTS if src // 2 == dst // 2 else dst
        period = (0.2, 0.3, 0.4)[at % 3]
        sent = RATE * period * (0.25 + 0.1 * (at % 4))
        jobs.append(JobProfile(name, period, period, 1e12 * (1 + at % 5), 8.0, comm_s=sent / RATE))
        for src_of, dst_of in ((src, dst), (dst, src)):
            flow = f"{name}/{src_of}"
            flows.append(Flow(flow, name, f"h{src_of}", f"h{dst_of}", sent))
    links = sorted({link for table in tables for path in table.paths for link in path.links})
    return ClusterView(
        tuple(jobs), tuple(flows), tuple(tables), tuple((link, RATE) for link in links),
        tuple(f"h{at}" for at in range(HOSTS)), "ab" * 16,
    )  # fmt: skip


def evidence(names: Sequence[str], points: int = 360) -> Evidence:
    """All that there can be of these jobs."""
    shown = view(names)
    found = solve_for_agents(shown, Options(simulations=0))
    made = write_plan(shown.digest, found)
    answers: dict[str, Any] = {
        "links": msgspec.to_builtins(list_links(found, shown.digest, 1000, every=True)),
        "plan": {**msgspec.to_builtins(made), "state": STATE},
        "peers": {"name": "h0", "held": "ab", "key": "", "troubles": [], "disagreements": [],
                  "peers": [peer(at) for at in range(1, HOSTS)]},
        "changes": msgspec.to_builtins(changes(names)),
        "history": msgspec.to_builtins(history(names, points)),
        "status": msgspec.to_builtins(status(names)),
    }  # fmt: skip
    return report_evidence._evidence("a test", AT, answers, shown, {})


STATE: dict[str, Any] = {
    "follows": "ab" * 16, "reason": None, "held": "ab" * 16, "active": "ab" * 16, "agreed": True,
    "alone": False, "missing": [], "number": 3, "age_s": 12.0, "in_force_s": 40.0,
}  # fmt: skip


def status(names: Sequence[str]) -> Status:
    """What the host's agent says."""
    jobs = []
    for at, name in enumerate(names):
        gains = {"gain": 1.1 + 0.05 * (at % 5), "gain_over": "off", "off_s": 0.3}
        alone = {"alone_s": 0.21, "alone_how": "150 ms of silence and t = 60 ms by the plan"}
        jobs.append({**JOB, "name": name, **alone, **gains})
    failed = {"name": "egress", "state": "failed", "reason": "eth0: there is no such device"}
    told = {"agent": AGENT, "jobs": jobs, "parts": [failed], "notes": [], "gossip": GOSSIP}
    return msgspec.convert(told, Status)


def history(names: Sequence[str], points: int) -> History:
    """An hour: mode off until the middle, and faster from then on."""
    jobs: list[dict[str, Any]] = []
    for at, name in enumerate(names):
        off = [step < points // 2 for step in range(points)]
        wave = [1 + 0.1 * math.sin(step / (5 + at % 7)) for step in range(points)]
        sent = [(0.8 if off[step] else 1.0) * 4e8 * wave[step] for step in range(points)]
        times = [(0.3 if off[step] else 0.24) / wave[step] for step in range(points)]
        jobs.append({"name": name, "sent": [None] * 20 + sent[20:], "iteration_s": times})
    told = {
        "step_s": 10.0, "end": AT, "total": len(jobs), "jobs": jobs,
        "modes": [{"at": AT - 5 * points, "mode": "mltcp"}],
    }  # fmt: skip
    return msgspec.convert(told, History)


def changes(names: Sequence[str]) -> Changes:
    """One change for each job."""
    told = [
        {"at": AT, "id": f"job-attach:{name}", "what": "job-attach", "target": name,
         "from": "none", "to": "hcc", "why": f"job {name} began", "undo": "ends with the agent"}
        for name in names
    ]  # fmt: skip
    latest = [{"record": "change", **one} for one in told]
    return msgspec.convert({"in_force": told, "latest": latest}, Changes)


def peer(at: int) -> dict[str, Any]:
    """A member that is alive."""
    return {
        "name": f"h{at}", "address": f"10.0.0.{at}:7471", "state": "alive", "link": "dialled",
        "rtt_s": 2e-4, "version": "0.1.0", "held": "ab" * 16, "active": "ab" * 16,
        "heard_s": 0.4, "shut_out": False,
    }  # fmt: skip
