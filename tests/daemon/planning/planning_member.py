"""A host of three jobs as a process: what it does by plans, without a kernel.

Words: its name, the other host, a seed `NAME@HOST:PORT` or nothing, the scheduler's revision, and
`[plan]` as JSON.  It says where it listens.  Then for each line on stdin it says, as JSON, what is
in force of each job.  Jobs x and y share a link; z has one of its own.
"""

from __future__ import annotations

import asyncio
import json
import sys
from types import SimpleNamespace
from typing import Any

import msgspec

from hostcc.schedule import revision

NAME, OTHER, SEED, REVISION, PLAN = sys.argv[1:]
revision.REVISION = int(REVISION)  # before anything else imports it: another scheduler

from hostcc.config.schema import Config  # noqa: E402
from hostcc.config.sections.gossip import GossipConfig  # noqa: E402
from hostcc.config.sections.plan import PlanConfig  # noqa: E402
from hostcc.coord.core.payloads import (  # noqa: E402
    FLOWS,
    LINKS,
    PATHS,
    PROFILE,
    FlowEntry,
    Flows,
    Links,
    PathEntry,
    Paths,
    Profile,
)
from hostcc.coord.net import address  # noqa: E402
from hostcc.coord.net.service import ServiceSettings  # noqa: E402
from hostcc.coord.plan_difference import digests  # noqa: E402
from hostcc.daemon.gossip.member import Member  # noqa: E402
from hostcc.daemon.planning.agreement_status import AgreementStatus  # noqa: E402
from hostcc.daemon.planning.plan_store import PlanStore  # noqa: E402
from hostcc.model import Flow  # noqa: E402
from tests.coord.members import LOOPBACK  # noqa: E402
from tests.coord.services import QUICK, QUICK_TRANSPORT  # noqa: E402

SIZES = {"x": 2.0, "y": 0.5, "z": 0.5}
"""GB per iteration and host."""
WORK = {"x": 2e12, "y": 0.5e12, "z": 1e12}
AWAY = {"x": "uplink", "y": "uplink", "z": "private"}


class Host:
    """The member, and the plans that its parts would act on."""

    def __init__(self) -> None:
        plan = msgspec.convert(json.loads(PLAN), PlanConfig)
        settings = ServiceSettings(
            name=NAME,
            listen=LOOPBACK,
            insecure=True,
            seeds=(address.parse_seed(SEED, "seed"),) if SEED else (),
            gossip=QUICK,
            transport=QUICK_TRANSPORT,
        )
        self.member = Member(settings, plan)
        config = Config(plan=plan, gossip=GossipConfig(enabled=True))
        host: Any = SimpleNamespace(config=config)
        self.plans = PlanStore(host, self)
        self.name = NAME

    def agreement(self) -> AgreementStatus | None:
        self.member.compare(self.member.service.coordinator.ticked)
        return self.member.agreement()

    def publish(self) -> None:
        node = self.member.service.node
        node.publish(LINKS, "", Links((("uplink", 1e9), ("private", 1e9))))
        for job, size in SIZES.items():
            to = ((OTHER, size * 1e9),)
            node.publish(PROFILE, job, Profile(1.0, 1.0, WORK[job], 8.0, to=to))
            flow = FlowEntry(f"f-{job}", f"away-{AWAY[job]}", size * 1e9)
            node.publish(FLOWS, job, Flows((flow,)))
        for link in set(AWAY.values()):
            node.publish(PATHS, f"away-{link}", Paths((PathEntry("p", (link,)),)))

    def told(self) -> dict[str, Any]:
        weights, paths = self._in_force("weights"), self._in_force("paths")
        standing = self.agreement()
        assert standing is not None
        alive = [one for one in self.member.peers() if one.state == "alive"]
        return {
            "weights": weights,
            "paths": paths,
            "agreed": standing.agreed,
            "active": standing.active,
            "differing": sorted(standing.differing),
            "left_out": sorted(self.plans.followed.newest.left_out),
            "differs": {one.name: list(one.differs) for one in alive},
        }

    def _in_force(self, act: Any) -> dict[str, str]:
        plan = self.plans.plan(act)
        flows = [
            Flow(f"{host}/f-{job}", job, host, "", 1.0) for host in (NAME, OTHER) for job in SIZES
        ]
        return {job: digest.hex() for job, digest in digests(plan, flows).jobs.items()}


async def main() -> None:
    host = Host()
    await host.member.start()
    host.publish()
    print(host.member.service.transport.address, flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(host.told()), flush=True)
    await asyncio.wait([host.member.end()])


asyncio.run(main())
