"""This host as a member: the gossip service from start to stop, and what it is told.

Only imported where gossip is enabled: it loads ZeroMQ, cryptography and the scheduler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from hostcc.config.sections.plan import PlanConfig
from hostcc.coord.core.payloads import PROFILE, RULES, PayloadError, Profile
from hostcc.coord.net.child_transport import ChildTransport
from hostcc.coord.net.service import GossipService, GossipStatus, PeerStatus, ServiceSettings
from hostcc.daemon.gossip import profile_records
from hostcc.daemon.gossip.disagreement import ClusterDifferences
from hostcc.daemon.planning import rules
from hostcc.daemon.planning.agreement_status import AgreementStatus
from hostcc.daemon.planning.executor import PlanThread
from hostcc.daemon.planning.planner import Planner
from hostcc.errors import one_line
from hostcc.model import JobProfile


class _Published(NamedTuple):
    profile: Profile
    measured: JobProfile
    addresses: Mapping[str, str]

    def of(self, measured: JobProfile, addresses: Mapping[str, str]) -> bool:
        """Whether it was made of these very objects."""
        return self.measured is measured and self.addresses is addresses


class Member:
    """One life of this host among the others."""

    def __init__(self, settings: ServiceSettings, plan: PlanConfig) -> None:
        """Raises HostccError (keys that cannot be read, an address that needs keys)."""
        self.planner = Planner(plan)
        self._rules = rules.rules(plan)
        self._thread = PlanThread()
        self.service = GossipService(
            settings,
            self.planner,
            rules.text(self._rules),
            executor=self._thread.submit,
            carry=ChildTransport,
        )
        self.unlike = ClusterDifferences(self._rules)
        """In what others' plans differ from this host's."""
        self.unpublished: dict[str, str] = {}
        """Job -> why the others would not take its profile."""
        self._published: dict[str, _Published] = {}
        self._seen: dict[str, float] = {}
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

    def publish(self, profiles: Iterable[JobProfile], live: Collection[str], now: float) -> None:
        """Tell what was measured of jobs, and withdraw those that are not among `live`."""
        node, addresses = self.service.node, self._addresses()
        self.unlike.look(node, now)
        for measured in profiles:
            job = measured.job
            self._seen[job] = now
            old = self._published.get(job)
            if old is not None and old.of(measured, addresses) and job not in self.unpublished:
                continue
            last = None if old is None else old.profile
            told = profile_records.content(measured, last, addresses)
            try:
                if told != last:
                    node.publish(PROFILE, job, told)
            except PayloadError as error:
                self.unpublished[job] = one_line(str(error))
                continue
            self._published[job] = _Published(told, measured, addresses)
            self.unpublished.pop(job, None)
        for job in profile_records.ended(self._seen, live, now):
            del self._seen[job]
            self.unpublished.pop(job, None)
            if self._published.pop(job, None) is not None:
                node.withdraw(PROFILE, job)

    def standing(self) -> AgreementStatus:
        """Which plan this host is to follow."""
        coordinator = self.service.coordinator
        at = coordinator.state
        return AgreementStatus(
            held=at.held,
            active=at.active,
            agreed=at.agreed,
            missing=at.missing,
            number=at.number,
            made=self.planner.made(coordinator.plan),
            trouble=coordinator.plan_error,
            at=coordinator.ticked,
            alone=self.service.node.members.count == 1,
            disagreements=self.unlike.found,
        )

    def status(self) -> GossipStatus:
        """As the service says it."""
        return self.service.status()

    def peers(self) -> list[PeerStatus]:
        """The same of all others."""
        return self.service.peers()

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

    def _addresses(self) -> dict[str, str]:
        """Who listens where; worked out anew when somebody's records have changed."""
        node = self.service.node
        if self._members[0] != node.store.revision:
            names = node.store.writers()
            pairs = [(name, node.address(name)) for name in names]
            found = profile_records.by_address(pairs)
            same = found == self._members[1]
            self._members = node.store.revision, self._members[1] if same else found
        return self._members[1]
