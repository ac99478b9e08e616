"""The agent's part that gossips, and what it answers about it."""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hostcc.config.schema import Config
from hostcc.daemon.jobs.views import PEERS
from hostcc.daemon.supervisor import Host, in_thread
from hostcc.errors import HostccError
from hostcc.model import Difference, JobProfile
from hostcc.version import version

if TYPE_CHECKING:
    from hostcc.daemon.gossip.member import Member
    from hostcc.daemon.planning.agreement_status import AgreementStatus

TICK_S = 0.5


class Gossip:
    """Tells the others of this host's jobs, and knows what they say.

    `profiles`: what is measured; `jobs`: names of the jobs that there are.
    """

    name = "gossip"
    every_s = TICK_S

    def __init__(
        self,
        host: Host,
        profiles: Callable[[], Sequence[JobProfile]],
        jobs: Callable[[], Collection[str]],
    ) -> None:
        self._host = host
        self._profiles = profiles
        self._jobs = jobs
        self._member: Member | None = None
        self._ending: asyncio.Task[None] | None = None
        self._basis: tuple[object, ...] = ()

    def disabled_reason(self) -> str:
        """Configured away?"""
        return "" if self._host.config.gossip.enabled else "gossip.enabled is false"

    def start(self) -> None:
        """The first tick does it, because it has to wait."""

    async def tick(self) -> None:
        """Take part, as it is configured now, and tell what is new."""
        if self._member is not None and self._basis != _basis(self._host.config):
            await self.stop()
        if self._member is None:
            await self._take_part()
        assert self._member is not None
        self._member.publish(self._profiles(), self._jobs(), time.monotonic())

    async def stop(self) -> None:
        """Take part no more; returns when the process of the transport has gone."""
        member, self._member = self._member, None
        if member is not None:
            self._ending = member.end()
        if self._ending is not None:  # a task of its own: it ends, even if this is cancelled
            await asyncio.wait([self._ending])

    def verify(self) -> list[Difference]:
        """Nothing of the host is changed."""
        return []

    def view(self) -> Mapping[str, Any]:
        """Who this host is among the others, and what they agree on."""
        if self._member is None:
            return {}
        return {
            "gossip": {
                **asdict(self._member.status()),
                "unpublished": dict(self._member.unpublished),
                "disagreements": [asdict(one) for one in self._member.unlike.found],
            }
        }

    def standing(self) -> AgreementStatus | None:
        """Which plan this host is to follow; None while it does not take part."""
        return self._member.standing() if self._member is not None else None

    @property
    def member(self) -> Member | None:
        """What this host is among the others; None while it is nothing."""
        return self._member

    def peers(self) -> dict[str, Any]:
        """All other members.  Raises HostccError while this host does not take part."""
        if self._member is None:
            why = self.disabled_reason() or "it is not running: see `hostcc status`"
            raise HostccError(f"no gossip: {why}")
        status = self._member.status()
        return {
            "schema": PEERS,
            "name": status.name,
            "held": status.held,
            "active": status.active,
            "key": status.key,
            "process": asdict(status.process) if status.process is not None else None,
            "troubles": [asdict(one) for one in status.troubles],
            "disagreements": [asdict(one) for one in self._member.unlike.found],
            "peers": [asdict(peer) for peer in self._member.peers()],
        }

    async def _take_part(self) -> None:
        await in_thread(_load)
        from hostcc.daemon.gossip.member import Member
        from hostcc.daemon.gossip.member_settings import settings

        if self._ending is not None:  # it may still have the address
            await asyncio.wait([self._ending])
        config = self._host.config
        self._basis = _basis(config)
        member = Member(settings(config, version()), config.plan)
        try:
            await member.start()
        except BaseException:
            self._ending = member.end()
            raise
        self._member = member


def _load() -> None:
    """ZeroMQ, cryptography and the scheduler take a while."""
    importlib.import_module("hostcc.daemon.gossip.member")


def _basis(config: Config) -> tuple[object, ...]:
    """What a member is made from: when it is another one, so is the member."""
    from hostcc.daemon.gossip.member_settings import key_directory

    return config.gossip, config.plan, config.agent.instance, key_directory(config)
