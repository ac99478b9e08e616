"""An agent's RDMA part in a process of its own, to be killed: beats until then.

`python -m tests.daemon.rdma.holder FOLDER` prints the plan's path, then tells job "job" to
wait long.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from hostcc.daemon.rdma.plan_publisher import PlanPublisher
from hostcc.verbs.plan_region import Pacing, RdmaJob
from tests.daemon.gossip.sources import no_profiles
from tests.daemon.planning.made import ToyPlans
from tests.daemon.rdma.world import World


async def live(folder: Path) -> None:
    world = World(folder)
    world.job("job")
    part = PlanPublisher(
        world.host,
        world.tracker,
        no_profiles(),
        ToyPlans(),
        lambda _: lambda *_: None,  # type: ignore[arg-type, return-value]
    )
    part.start()
    assert part._region is not None
    slow = RdmaJob("job", pacing=Pacing(1e6, 1 << 40, (1.0,) * 33))
    part._region.publish([slow])
    part._published = {"job": slow}
    part._publish_new = lambda: None  # type: ignore[method-assign]
    print("ready", flush=True)
    for _ in range(600):
        await part.tick()
        await asyncio.sleep(0.1)


asyncio.run(live(Path(sys.argv[1])))
