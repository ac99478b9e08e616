"""This host as a member of the gossip: the service with its planner, from start to stop.

Only imported where gossip is enabled: it loads ZeroMQ, cryptography and the scheduler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress

from msgspec.structs import replace

from hostcc.answers.gossip import GossipStatus, PeerStatus
from hostcc.config.sections.plan import PlanConfig
from hostcc.coord.core.coordinator import PendingPlan
from hostcc.coord.core.payloads import MEMBER, RULES
from hostcc.coord.net.child_transport import ChildTransport
from hostcc.coord.net.service import GossipService, ServiceSettings
from hostcc.daemon.gossip import profile_records
from hostcc.daemon.gossip.disagreement import ClusterDifferences
from hostcc.daemon.planning import rules
from hostcc.daemon.planning.agreement_status import AgreementStatus
from hostcc.daemon.planning.executor import PlanThread
from hostcc.daemon.planning.planner import Planner
from hostcc.model import Plan


class Member:
    """One membership: ends when the configuration of the gossip changes."""

    def __init__(
        self,
        settings: ServiceSettings,
        plan: PlanConfig,
        local_jobs: Callable[[], Collection[str]] = tuple,
        planned: Callable[[], None] = lambda: None,
    ) -> None:
        """`local_jobs`: names of the jobs on this host; `planned`: called when a plan is ready.

        Raises HostccError (keys that cannot be read, an address that needs keys).
        """
        self.planner = Planner(plan)
        self._rules = rules.rules(plan)
        self._thread, self._planned = PlanThread(), planned
        self.service = GossipService(
            settings,
            self.planner,
            rules.text(self._rules),
            executor=self._plan,
            local_jobs=local_jobs,
            carry=ChildTransport,
        )
        self.differences = ClusterDifferences(self._rules)
        """Options in which others' plans differ from this host's."""
        self._members: tuple[int, dict[str, str]] = (-1, {})
        self._ready: asyncio.Future[None]
        self._life: asyncio.Task[None]

    async def start(self) -> None:
        """Take part.  Raises HostccError when the address cannot be taken."""
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        # A task, so that cancelling is all that is needed to stop, from wherever.
        self._life = loop.create_task(self._live())
        await asyncio.shield(self._ready)

    def end(self) -> asyncio.Task[None]:
        """Take part no more; the task is done when all is closed."""
        self._life.cancel()
        return self._life

    def compare(self, now: float) -> None:
        """Compare the rules of plans with the other members', if that is due; `now`: seconds."""
        self.differences.check(self.service.node, now)

    def agreement(self) -> AgreementStatus:
        """Return which plan this host is to follow."""
        coordinator = self.service.coordinator
        at = coordinator.state
        return AgreementStatus(
            held=at.held,
            active=at.active,
            agreed=coordinator.agreed,
            missing=at.missing,
            number=at.number,
            made=self.planner.made(coordinator.plan),
            trouble=coordinator.plan_error,
            waits=coordinator.plan_waits,
            at=coordinator.ticked,
            alone=self.service.node.members.count == 1,
            disagreements=self.differences.found,
            snapshot=coordinator.snapshot,
            differing=coordinator.differing_jobs(),
            plans_agree=coordinator.plans_agree,
        )

    def status(self) -> GossipStatus:
        """Return figures of this member."""
        return self.service.status()

    def peers(self) -> list[PeerStatus]:
        """Return figures of all others."""
        unlike = self.differences.by_member
        return [
            replace(one, differs=unlike[one.name]) if one.name in unlike else one
            for one in self.service.peers()
        ]

    def addresses(self) -> dict[str, str]:
        """Return address -> member; the same object while nobody has another address."""
        node = self.service.node
        moment = node.store.changes(MEMBER)
        if self._members[0] != moment:
            names = node.store.writers()
            pairs = [(name, node.address(name)) for name in names]
            found = profile_records.by_address(pairs)
            same = found == self._members[1]
            self._members = moment, self._members[1] if same else found
        return self._members[1]

    def _plan(self, work: Callable[[], Plan]) -> PendingPlan | None:
        """Begin a plan, and follow it as soon as it is ready: a round may be far."""
        pending = self._thread.submit(work)
        if pending is not None:
            loop = asyncio.get_running_loop()
            pending.add_done_callback(lambda _: _call(loop, self._follow))
        return pending

    def _follow(self) -> None:
        self.service.hurry()
        self._planned()

    async def _live(self) -> None:
        try:
            await self.service.start()
            self.service.node.publish(RULES, "", self._rules)
            self._ready.set_result(None)
            await asyncio.Event().wait()
        except Exception as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)
        finally:
            self._thread.close()
            with suppress(asyncio.CancelledError):
                await self.service.stop()


def _call(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    """Have a loop call a function, from another thread."""
    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(function)
