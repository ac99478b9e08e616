"""A transport in a process of its own, and what the agent knows of it.

Whatever ends that process, or holds it up, is noticed, said, and followed by another one; until
then nobody is reached, as if the network were gone.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from pathlib import Path
from random import Random

import hostcc
from hostcc.coord.core.clock import Clock
from hostcc.coord.keys.keyring import Keyring
from hostcc.coord.net.address import Address
from hostcc.coord.net.carrier import ProcessStatus
from hostcc.coord.net.dealers import Wait
from hostcc.coord.net.pipe import Pipe
from hostcc.coord.net.pipe_messages import (
    ENCODER,
    REPORTS,
    Account,
    Begin,
    Offence,
    Order,
    PeerEndpoint,
    PeerMessage,
    Send,
    Started,
    StartError,
)
from hostcc.coord.net.transport import Link, OnMessage, check_listen
from hostcc.coord.net.transport_settings import TransportSettings
from hostcc.errors import HostccError
from hostcc.log import configured, get_logger

log = get_logger("gossip")

PROGRAM = "hostcc.coord.net.transport_process"
RESTART_S = (0.5, 30.0)
"""Wait before it is started again: at first, and at most; doubled each time."""
STEADY_S = 60.0
"""After so long without an end, the wait is the first one again."""
HUNG_S = 10.0
"""Without a word for so long, as the agent has experienced it, it is ended."""
TURN_S = 2.0
"""What an agent that was held up itself counts at most of it."""
BEGIN_S = 30.0
"""For the process to begin, on a machine that is busy."""
REAP_S = 0.01
NONE = Account({}, {}, {}, [], 0, 0)
NO_WAY = PeerEndpoint("", accepted=False, rtt_s=None, shut_out=False)
NOT_PASSED_ON = ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC")


class Child:
    """One such process, from its start to its end."""

    def __init__(self, take: Callable[[PeerMessage | Account], None]) -> None:
        self.account = NONE
        self.spoken = True
        """Whether it has said something since this was last set to False."""
        loop = asyncio.get_running_loop()
        self.port: asyncio.Future[int] = loop.create_future()
        """Where it listens, once it does; HostccError when it cannot."""
        self.over: asyncio.Future[str] = loop.create_future()
        """Why it is of no more use; empty: it has ended."""
        self._tell = take
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = Pipe(self._take, self._lost)

    @property
    def pid(self) -> int | None:
        """Of the process."""
        return self._process.pid if self._process is not None else None

    async def start(self, begin: Begin) -> int:
        """Start it, and wait until it listens; the port.  Raises HostccError."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                # In this thread: it is told to end with the thread that starts it.
                self._process = subprocess.Popen(  # noqa: ASYNC220 - as guards are: some ms
                    command(theirs.fileno()),
                    env=environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                )
            except OSError as error:
                ours.close()
                raise HostccError(f"gossip: its process does not start: {error}") from None
        loop = asyncio.get_running_loop()
        await loop.create_unix_connection(lambda: self._pipe, sock=ours)
        self.say(begin)
        done, _ = await asyncio.wait(
            (self.port, self.over), timeout=BEGIN_S, return_when=asyncio.FIRST_COMPLETED
        )
        if self.port in done:
            return self.port.result()
        raise HostccError(f"gossip: its process {await self.end() if done else 'does not begin'}")

    def say(self, order: Order) -> bool:
        """Whether there was room for it."""
        return self._pipe.send(ENCODER.encode(order))

    def give_up(self, why: str) -> None:
        """It is of no more use."""
        if not self.over.done():
            self.over.set_result(why)

    async def end(self) -> str:
        """End it if it runs; why it ended, in words."""
        self._pipe.close()
        process = self._process
        if process is None:
            return ""
        process.kill()
        while process.poll() is None:  # noqa: ASYNC110 - it was killed
            await asyncio.sleep(REAP_S)
        why = self.over.result() if self.over.done() else ""
        return why or ended(process.returncode)

    def _take(self, frame: bytes) -> None:
        report = REPORTS.decode(frame)
        self.spoken = True
        if isinstance(report, Started):
            if not self.port.done():
                self.port.set_result(report.port)
        elif isinstance(report, StartError):
            if not self.port.done():
                self.port.set_exception(HostccError(report.reason))
        else:
            self._tell(report)

    def _lost(self, why: str) -> None:
        self.give_up(f"said what it should not: {why}" if why else "")


class ChildTransport:
    """Transport, with its sockets in another process."""

    def __init__(
        self,
        name: str,
        listen: Address,
        keyring: Keyring | None,
        on_message: OnMessage,
        *,
        settings: TransportSettings | None = None,
        insecure: bool = False,
        clock: Callable[[], float] = time.monotonic,
        rng: Random | None = None,
    ) -> None:
        """Raises HostccError when it would listen to strangers without being told to."""
        check_listen(name, listen, keyring, insecure=insecure)
        self.name, self.keyring = name, keyring
        self.settings = settings or TransportSettings()
        self.counters: Counter[str] = Counter()
        self._listen, self._on_message, self._insecure = listen, on_message, insecure
        self._clock, self._rng = clock, rng or Random()
        self._experience = Clock(TURN_S)
        self._spoken_at = 0.0
        self._heard: OrderedDict[str, float] = OrderedDict()
        self._account = NONE
        self._child: Child | None = None
        self._restarts = 0
        self._why: str | None = None
        self._keeping: asyncio.Task[None] | None = None

    @property
    def insecure(self) -> bool:
        """Whether anybody who reaches the port may take part."""
        return self.keyring is None

    @property
    def address(self) -> Address:
        """Where it listens, with the port that it got."""
        return self._listen

    @property
    def process(self) -> ProcessStatus:
        """The process that has the sockets."""
        pid = self._child.pid if self._child is not None else None
        return ProcessStatus(pid, self._restarts, self._why)

    async def start(self) -> None:
        """Listen.  Raises HostccError when the address cannot be taken, or nothing be started."""
        await self._begin()
        self._keeping = asyncio.get_running_loop().create_task(self._keep())

    async def stop(self) -> None:
        """End the process and, with it, every connection."""
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
        child, self._child = self._child, None
        if child is not None:
            await child.end()

    def send(self, peer: str, address: Address | None, payload: bytes) -> bool:
        """Have a message sent; False when there is no process, or no room."""
        if self._child is None or len(payload) > self.settings.max_message:
            self.counters[
                "dropped: no process" if self._child is None else "dropped: too long"
            ] += 1
            return False
        if not self._child.say(Send(peer, address, payload)):
            self.counters["dropped: the process is busy"] += 1
            return False
        return True

    def offence(self, peer: str, reason: str, strikes: float = 1.0) -> None:
        """A peer did what none of ours would do."""
        if self._child is not None:
            self._child.say(Offence(peer, reason, strikes))

    def link(self, peer: str) -> Link:
        """How a peer is reached, as of the latest account."""
        way, heard = self._account.ways.get(peer, NO_WAY), self._heard.get(peer)
        heard_s = None if heard is None else self._clock() - heard
        return Link(way.dialled, way.accepted, heard_s, way.rtt_s, way.shut_out)

    def allowed(self, peer: str) -> bool:
        """Whether there is a key with which a peer may be dialled."""
        return self.keyring is None or bool(self.keyring.curves_of(peer))

    def failure(self, peer: str) -> Wait | None:
        """How a peer could not be reached."""
        return self._account.failures.get(peer)

    def failures(self) -> list[str]:
        """Peers that could not be reached."""
        return list(self._account.failures)

    def refused_keys(self, now: float) -> list[tuple[str, str]]:  # noqa: ARG002 - as Transport has it
        """(Address, CURVE key in hexadecimal) of those that came of late and may not come in."""
        return list(self._account.refused)

    def connections(self) -> tuple[int, int]:
        """(Dialled, accepted) that stand now."""
        return self._account.dialled, self._account.accepted

    def tick(self) -> None:
        """Look after keys, and whether the process lives."""
        now = self._clock()
        if self.keyring is not None:
            self.keyring.tick(now)
        at, child = self._experience.advance(now), self._child
        if child is None or child.spoken:
            self._spoken_at = at
            if child is not None:
                child.spoken = False
        elif at - self._spoken_at > HUNG_S:
            child.give_up(f"said nothing for {HUNG_S:g} s")

    async def _begin(self) -> None:
        child = Child(self._take)
        level, form = configured()
        keys = str(self.keyring.directory) if self.keyring is not None else None
        begin = Begin(self.name, self._listen, keys, self._insecure, self.settings, level, form)
        try:
            port = await child.start(begin)
        except BaseException:
            await child.end()
            raise
        self._listen = Address(self._listen.host, port)
        self._child = child

    async def _keep(self) -> None:
        """Start another one whenever one has ended."""
        wait_s, begun = RESTART_S[0], self._clock()
        while True:
            child = self._child
            if child is not None:
                await asyncio.wait((child.over,))
                self._child, self._account = None, NONE
                self._why = await child.end()
                if self._clock() - begun > STEADY_S:
                    wait_s = RESTART_S[0]
            log.warning("gossip process", reason=self._why, again_s=wait_s)
            await asyncio.sleep(wait_s * self._rng.uniform(1.0, 1.5))
            wait_s, begun = min(2 * wait_s, RESTART_S[1]), self._clock()
            self._restarts += 1
            try:
                await self._begin()
            except HostccError as error:
                self._why = str(error)
            else:
                log.info("gossip process", pid=self.process.pid, restarts=self._restarts)

    def _take(self, report: PeerMessage | Account) -> None:
        if isinstance(report, PeerMessage):
            self._heard[report.peer] = self._clock()
            self._heard.move_to_end(report.peer)
            if len(self._heard) > 2 * self.settings.max_accepted:
                self._heard.popitem(last=False)
            self._on_message(report.peer, report.payload)
            return
        before, self._account = self._account, report
        for what, count in report.counters.items():
            self.counters[what] += count - before.counters.get(what, 0)


def command(fd: int) -> list[str]:
    """The process's own."""
    return [sys.executable, "-P", "-m", PROGRAM, str(fd), str(os.getpid())]


def environment() -> dict[str, str]:
    """What it finds this package by, whichever way the agent has found it."""
    top = str(Path(hostcc.__file__).parents[1])
    others = {word: text for word, text in os.environ.items() if word not in NOT_PASSED_ON}
    paths = [top, *filter(None, [others.get("PYTHONPATH")])]
    return {**others, "PYTHONPATH": os.pathsep.join(paths)}


def ended(status: int) -> str:
    """How a process ended, by what its parent is told."""
    if status >= 0:
        return f"exited with status {status}"
    return f"was ended by {signal.Signals(-status).name}"
