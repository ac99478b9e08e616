"""The agent's part that takes part in the gossip, and what it answers about it."""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import msgspec

from hostcc.answers.gossip import Gossip as GossipAnswer
from hostcc.answers.gossip import Peers
from hostcc.answers.parts import Part
from hostcc.config.schema import Config
from hostcc.coord.core.payloads import PROFILE
from hostcc.daemon.gossip.cluster import Cluster
from hostcc.daemon.gossip.profile_store import ProfileStore
from hostcc.daemon.supervisor import Host, WithBlock, in_thread
from hostcc.errors import HostccError
from hostcc.model import Difference
from hostcc.version import version

if TYPE_CHECKING:
    from hostcc.daemon.gossip.member import Member

TICK_S = 0.5


class Gossip:
    """Makes this host a member, publishes its profiles, and shows what the others say."""

    name = "gossip"
    every_s = TICK_S

    def __init__(
        self,
        host: Host,
        cluster: Cluster,
        profiles: ProfileStore,
        planned: Callable[[], None] = lambda: None,
    ) -> None:
        """`cluster`: where the other parts find the member; `profiles`: what is published;
        `planned`: called when a plan is ready."""
        self._host, self._cluster, self._profiles = host, cluster, profiles
        self._planned = planned
        self._ending: asyncio.Task[None] | None = None
        self._basis: tuple[object, ...] = ()

    def disabled_reason(self) -> str:
        """Return the key that keeps this host from taking part, if one does."""
        return "" if self._host.config.gossip.enabled else "gossip.enabled is false"

    def start(self) -> None:
        """Do nothing: the first tick takes part, because that has to wait."""

    async def tick(self) -> None:
        """Take part, as it is configured now, and publish what is new."""
        if self._cluster.member is not None and self._basis != _basis(self._host.config):
            await self.stop()
        member = self._cluster.member or await self._take_part()
        member.compare(time.monotonic())
        self._cluster.publish(PROFILE, self._profiles.records(member.addresses()))

    async def stop(self) -> None:
        """Take part no more; returns when the process of the transport has gone."""
        member, self._cluster.member = self._cluster.member, None
        if member is not None:
            self._ending = member.end()
        if self._ending is not None:  # a task of its own: it ends, even if this is cancelled
            await asyncio.wait([self._ending])

    def verify(self) -> list[Difference]:
        """Find nothing: no setting of the host is changed."""
        return []

    def view(self) -> Part | WithBlock[GossipAnswer]:
        """Show who this host is among the others, and what they agree on."""
        member = self._cluster.member
        if member is None:
            return Part()
        shown = GossipAnswer(
            **msgspec.structs.asdict(member.status()),
            unpublished=self._cluster.refused(PROFILE),
            disagreements=member.differences.found,
        )
        return WithBlock(shown)

    def peers(self) -> Peers:
        """List all other members.  Raises HostccError while this host does not take part."""
        member = self._cluster.member
        if member is None:
            why = self.disabled_reason() or "it is not running: see `hostcc status`"
            raise HostccError(f"no gossip: {why}")
        status = member.status()
        return Peers(
            name=status.name,
            held=status.held,
            active=status.active,
            plan=status.plan,
            key=status.key,
            process=status.process,
            troubles=status.troubles,
            disagreements=member.differences.found,
            peers=tuple(member.peers()),
        )

    async def _take_part(self) -> Member:
        await in_thread(_load)
        from hostcc.daemon.gossip.member import Member
        from hostcc.daemon.gossip.member_settings import settings

        if self._ending is not None:  # it may still have the address
            await asyncio.wait([self._ending])
        config = self._host.config
        self._basis = _basis(config)
        member = Member(settings(config, version()), config.plan, self._local_jobs, self._planned)
        try:
            await member.start()
        except BaseException:
            self._ending = member.end()
            raise
        self._cluster.member = member
        return member

    def _local_jobs(self) -> Collection[str]:
        engine = self._host.engine
        return engine.table.jobs.keys() if engine is not None else ()


def _load() -> None:
    """Load ZeroMQ, cryptography and the scheduler, which takes a while."""
    importlib.import_module("hostcc.daemon.gossip.member")


def _basis(config: Config) -> tuple[object, ...]:
    """What a member is made from: when that changes, this host becomes another member."""
    from hostcc.daemon.gossip.member_settings import key_directory

    return config.gossip, config.plan, config.agent.instance, key_directory(config)
