"""A member of the gossip that tells of two jobs with a link in common, as it is ordered.

Words: its name, where it listens.  Orders on stdin, one a line: JSON of job -> FLOP of an
iteration; a job that is not named is withdrawn.  It says "up", and "told" after each order.
"""

from __future__ import annotations

import asyncio
import json
import sys

from hostcc.config.sections.plan import PlanConfig
from hostcc.coord.core.payloads import (
    FLOWS,
    LINKS,
    PATHS,
    PROFILE,
    RULES,
    FlowEntry,
    Flows,
    Links,
    PathEntry,
    Paths,
    Profile,
)
from hostcc.coord.net import address
from hostcc.coord.net.service import GossipService, ServiceSettings
from hostcc.daemon.planning import rules
from hostcc.daemon.planning.planner import Planner
from hostcc.version import version

BYTES, RATE = 1e9, 1e9


def tell(service: GossipService, before: set[str], work: dict[str, float]) -> None:
    node = service.node
    for job in before - work.keys():
        node.withdraw(FLOWS, job)
        node.withdraw(PROFILE, job)
    for job, flop in work.items():
        profile = Profile(0.5, 0.5, flop, 8.0, 1.5, to=(("elsewhere", BYTES),))
        node.publish(PROFILE, job, profile)
        node.publish(FLOWS, job, Flows((FlowEntry(f"flow-{job}", "elsewhere", BYTES),)))


async def main() -> None:
    name, listen = sys.argv[1:]
    settings = ServiceSettings(
        name=name, listen=address.parse(listen, "listen"), insecure=True, software=version()
    )
    plan = PlanConfig()
    own = rules.rules(plan)
    service = GossipService(settings, Planner(plan), rules.text(own))
    await service.start()
    service.node.publish(RULES, "", own)
    service.node.publish(LINKS, "", Links((("uplink", RATE),)))
    service.node.publish(PATHS, "elsewhere", Paths((PathEntry("p0", ("uplink",)),)))
    print("up", flush=True)
    jobs: set[str] = set()
    while line := await asyncio.to_thread(sys.stdin.readline):
        work = json.loads(line)
        tell(service, jobs, work)
        jobs = set(work)
        print("told", flush=True)
    await service.stop()


asyncio.run(main())
