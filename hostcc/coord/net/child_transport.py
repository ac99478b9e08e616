"""Runs the transport in a child process and supervises it.

Whatever ends or blocks the child is noticed and logged, and another child is started. Until then no
member can be reached, as if the network were down.
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
from hostcc.answers.gossip import ProcessStatus
from hostcc.coord.core.clock import Clock
from hostcc.coord.keys.keyring import Keyring
from hostcc.coord.net.address import Address
from hostcc.coord.net.dealers import DialFailure
from hostcc.coord.net.greeter import OnMet, ignore_met
from hostcc.coord.net.pipe import Pipe
from hostcc.coord.net.pipe_messages import (
    ENCODER,
    MAX_LEARNED,
    REPORTS,
    Begin,
    Greet,
    Learn,
    Met,
    Offence,
    Order,
    PeerEndpoint,
    PeerMessage,
    Send,
    Started,
    StartError,
    TransportStatus,
)
from hostcc.coord.net.transport import Link, OnMessage, check_listen
from hostcc.coord.net.transport_settings import TransportSettings
from hostcc.errors import HostccError
from hostcc.log import configured, get_logger

log = get_logger("gossip")

MODULE = "hostcc.coord.net.transport_process"
RESTART_S = (0.5, 30.0)
"""Seconds before a restart: at first and at most; doubled each time."""
RESTART_RESET_S = 60.0
"""Seconds of running after which the delay starts from the first value again."""
HANG_TIMEOUT_S = 10.0
"""Experienced seconds without any report after which the child is killed."""
MAX_COUNTED_GAP_S = 2.0
"""Longest pause of the agent itself that counts towards that timeout."""
START_TIMEOUT_S = 30.0
"""Seconds within which the child must listen, even on a busy machine."""
REAP_POLL_S = 0.01
EMPTY_STATUS = TransportStatus({}, {}, {}, [], 0, 0)
NO_ENDPOINT = PeerEndpoint("", accepted=False, rtt_s=None, shut_out=False)
ENV_NOT_INHERITED = ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC")


class TransportChild:
    """One child process, from start to end."""

    def __init__(self, take: Callable[[PeerMessage | TransportStatus | Met], None]) -> None:
        self.reported = True
        """Whether a report came since this was last set to False."""
        loop = asyncio.get_running_loop()
        self.port: asyncio.Future[int] = loop.create_future()
        """Port that the child listens on; HostccError when it cannot listen."""
        self.over: asyncio.Future[str] = loop.create_future()
        """Why the child is no longer usable; empty: it has ended."""
        self._tell = take
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = Pipe(self._take, self._lost)

    @property
    def pid(self) -> int | None:
        """Process id; None before the start."""
        return self._process.pid if self._process is not None else None

    async def start(self, begin: Begin) -> int:
        """Start the process and wait until it listens; return its port. Raises HostccError."""
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
        self.send_order(begin)
        done, _ = await asyncio.wait(
            (self.port, self.over), timeout=START_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED
        )
        if self.port in done:
            return self.port.result()
        late = f"did not listen within {START_TIMEOUT_S:g} s"
        raise HostccError(f"gossip: its process {await self.end() if done else late}")

    def send_order(self, order: Order) -> bool:
        """Send an order; return False when there was no room for it."""
        return self._pipe.send(ENCODER.encode(order))

    def mark_unusable(self, why: str) -> None:
        """Mark the child as unusable, for the reason `why`."""
        if not self.over.done():
            self.over.set_result(why)

    async def end(self) -> str:
        """Kill the process if it runs; return why it ended, in words."""
        self._pipe.close()
        process = self._process
        if process is None:
            return ""
        process.kill()
        while process.poll() is None:  # noqa: ASYNC110 - it was killed
            await asyncio.sleep(REAP_POLL_S)
        why = self.over.result() if self.over.done() else ""
        return why or exit_text(process.returncode)

    def _take(self, frame: bytes) -> None:
        report = REPORTS.decode(frame)
        self.reported = True
        if isinstance(report, Started):
            if not self.port.done():
                self.port.set_result(report.port)
        elif isinstance(report, StartError):
            if not self.port.done():
                self.port.set_exception(HostccError(report.reason))
        else:
            self._tell(report)

    def _lost(self, why: str) -> None:
        self.mark_unusable(f"said what it should not: {why}" if why else "")


class ChildTransport:
    """A transport whose sockets live in a child process."""

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
        """Raises HostccError when it would be open to strangers without `insecure`."""
        check_listen(name, listen, keyring, insecure=insecure)
        self.name, self.keyring = name, keyring
        self.settings = settings or TransportSettings()
        self.counters: Counter[str] = Counter()
        self.on_met: OnMet = ignore_met
        self._listen, self._on_message, self._insecure = listen, on_message, insecure
        self._clock, self._rng = clock, rng or Random()
        self._experience = Clock(MAX_COUNTED_GAP_S)
        self._reported_at = 0.0
        self._heard: OrderedDict[str, float] = OrderedDict()
        self._status = EMPTY_STATUS
        self._child: TransportChild | None = None
        self._restarts = 0
        self._why: str | None = None
        self._keeping: asyncio.Task[None] | None = None

    @property
    def insecure(self) -> bool:
        """Whether anybody who reaches the port may take part."""
        return self.keyring is None

    @property
    def address(self) -> Address:
        """Address that it listens on, with the port that it was given."""
        return self._listen

    @property
    def process(self) -> ProcessStatus:
        """State of the child process."""
        pid = self._child.pid if self._child is not None else None
        return ProcessStatus(pid, self._restarts, self._why)

    async def start(self) -> None:
        """Begin to listen. Raises HostccError when the address is taken or no process can start."""
        await self._begin()
        self._keeping = asyncio.get_running_loop().create_task(self._keep())

    async def stop(self) -> None:
        """Kill the process and, with it, every connection."""
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
        child, self._child = self._child, None
        if child is not None:
            await child.end()

    def send(self, peer: str, address: Address | None, payload: bytes) -> bool:
        """Hand a message to the child; return False when it does not run or its pipe is full."""
        if self._child is None or len(payload) > self.settings.max_message:
            self.counters[
                "dropped: no process" if self._child is None else "dropped: too long"
            ] += 1
            return False
        if not self._child.send_order(Send(peer, address, payload)):
            self.counters["dropped: the process is busy"] += 1
            return False
        return True

    def offence(self, peer: str, reason: str, strikes: float = 1.0) -> None:
        """Count a protocol violation of a peer."""
        if self._child is not None:
            self._child.send_order(Offence(peer, reason, strikes))

    def link(self, peer: str) -> Link:
        """Return the state of the connections to a peer, as of the latest status report."""
        way, heard = self._status.ways.get(peer, NO_ENDPOINT), self._heard.get(peer)
        heard_s = None if heard is None else self._clock() - heard
        return Link(way.dialled, way.accepted, heard_s, way.rtt_s, way.shut_out)

    def allowed(self, peer: str) -> bool:
        """Return whether there is a key with which to connect to a peer."""
        return self.keyring is None or bool(self.keyring.curves_of(peer))

    def failure(self, peer: str) -> DialFailure | None:
        """Return why a peer could not be reached; None: it was reached."""
        return self._status.failures.get(peer)

    def failures(self) -> list[str]:
        """Return the peers that could not be reached."""
        return list(self._status.failures)

    def refused_keys(self, now: float) -> list[tuple[str, str]]:  # noqa: ARG002 - as Transport has it
        """Return (address, CURVE key in hexadecimal) of recently refused connections."""
        return list(self._status.refused)

    def greet(self, address: Address) -> None:
        """Ask who is at an address; `on_met` is called with the answer."""
        if self._child is not None:
            self._child.send_order(Greet(address))

    def learn(self, raw: list[bytes]) -> None:
        """Hand the child what was learned from records: it decides who may connect."""
        for begin in range(0, len(raw), MAX_LEARNED):
            if self._child is not None:
                self._child.send_order(Learn(raw[begin : begin + MAX_LEARNED]))

    def refused_certificates(self, now: float) -> list[tuple[str, str]]:  # noqa: ARG002 - as above
        """Return (address, why) of certificates that were refused here lately."""
        return list(self._status.refused_certificates)

    def refusing(self) -> list[tuple[str, str]]:
        """Return (address, why) of hosts that refuse this host's certificate."""
        return list(self._status.refusing)

    def connections(self) -> tuple[int, int]:
        """Return the number of open connections: (dialled, accepted)."""
        return self._status.dialled, self._status.accepted

    def tick(self) -> None:
        """Check for changed keys, and whether the child still reports."""
        now = self._clock()
        if self.keyring is not None:
            self.keyring.tick(now)
        at, child = self._experience.advance(now), self._child
        if child is None or child.reported:
            self._reported_at = at
            if child is not None:
                child.reported = False
        elif at - self._reported_at > HANG_TIMEOUT_S:
            child.mark_unusable(f"said nothing for {HANG_TIMEOUT_S:g} s")

    async def _begin(self) -> None:
        child = TransportChild(self._take)
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
        if self.keyring is not None:
            self.learn(self.keyring.learned())

    async def _keep(self) -> None:
        # Start another child whenever one has ended.
        wait_s, begun = RESTART_S[0], self._clock()
        while True:
            child = self._child
            if child is not None:
                await asyncio.wait((child.over,))
                self._child, self._status = None, EMPTY_STATUS
                self._why = await child.end()
                if self._clock() - begun > RESTART_RESET_S:
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

    def _take(self, report: PeerMessage | TransportStatus | Met) -> None:
        if isinstance(report, Met):
            self.on_met(report.member, report.address, report.certificate)
            return
        if isinstance(report, PeerMessage):
            self._heard[report.peer] = self._clock()
            self._heard.move_to_end(report.peer)
            if len(self._heard) > 2 * self.settings.max_accepted:
                self._heard.popitem(last=False)
            self._on_message(report.peer, report.payload)
            return
        before, self._status = self._status, report
        for what, count in report.counters.items():
            self.counters[what] += count - before.counters.get(what, 0)


def command(fd: int) -> list[str]:
    """Return the child's command line; `fd`: its end of the socket pair."""
    return [sys.executable, "-P", "-m", MODULE, str(fd), str(os.getpid())]


def environment() -> dict[str, str]:
    """Return the child's environment, in which it finds this package as the agent did."""
    top = str(Path(hostcc.__file__).parents[1])
    others = {word: text for word, text in os.environ.items() if word not in ENV_NOT_INHERITED}
    paths = [top, *filter(None, [others.get("PYTHONPATH")])]
    return {**others, "PYTHONPATH": os.pathsep.join(paths)}


def exit_text(status: int) -> str:
    """Return in words how a process ended; `status`: its subprocess return code."""
    if status >= 0:
        return f"exited with status {status}"
    return f"was ended by {signal.Signals(-status).name}"
