"""Runs `hostcc agent` among others that are played: `python -m ... CASE DIRECTORY`.

Loads nothing that the agent does not load.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from hostcc.cli.main import main
from hostcc.coord.core import payloads
from hostcc.coord.core.message import Record
from hostcc.coord.net import child_transport
from hostcc.daemon.gossip import member
from hostcc.daemon.planning import cpu_budget

JOINED = "joined"
"""File that is there once the agent takes part: what it is told before is lost."""


def run(case: str, directory: Path) -> int:
    """Run the agent; its exit status."""
    crowd = sys.executable, "-P", "-m", "benchmarks.plan_cost_crowd", case, str(directory)
    child_transport.command = lambda fd: [*crowd, str(fd)]
    # What may be saved up is spent on the first views; measured is the long run.
    cpu_budget.CpuBudget.__init__.__defaults__ = (0.0, 0.0)
    join = member.Member.start

    async def start(self: member.Member) -> None:
        await join(self)
        own = msgspec.msgpack.decode((directory / "own").read_bytes(), type=list[Record])
        for record in own:
            content = payloads.decode(record)
            if record.kind not in {payloads.MEMBER, payloads.RULES} and content is not None:
                self.service.node.publish(record.kind, record.key, content)
        (directory / JOINED).touch()

    member.Member.start = start  # type: ignore[method-assign]
    return main(["agent", "--config", str(directory / "hostcc.toml")])


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], Path(sys.argv[2])))
