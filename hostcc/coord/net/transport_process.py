"""The transport process: `python -m hostcc.coord.net.transport_process SOCKET PARENT`.

libzmq aborts its process on unexpected states. This process holds nothing but connections, so the
agent can simply start another one.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path
from typing import NoReturn

from hostcc.coord.keys.keyring import Keyring
from hostcc.coord.net.address import Address
from hostcc.coord.net.pipe import Pipe
from hostcc.coord.net.pipe_messages import (
    ENCODER,
    MAX_FAILURES,
    MAX_LINKS,
    MAX_REFUSED,
    ORDERS,
    Begin,
    Greet,
    Met,
    Offence,
    PeerEndpoint,
    PeerMessage,
    Report,
    Send,
    Started,
    StartError,
    TransportStatus,
)
from hostcc.coord.net.sandbox import confine
from hostcc.coord.net.transport import Transport
from hostcc.errors import HostccError, one_line
from hostcc.log import configure, get_logger

log = get_logger("gossip")

STATUS_INTERVAL_S = 0.5
"""Seconds between status reports, and between checks of keys and connections."""


class Server:
    """Executes the agent's orders and reports messages and status to it."""

    def __init__(self) -> None:
        self.begin: asyncio.Future[Begin] = asyncio.get_running_loop().create_future()
        self.pipe = Pipe(self._take, _exit)
        self._transport: Transport | None = None

    async def run(self) -> None:
        """Run until the agent is gone, which ends the process."""
        transport = self._made(await self.begin)
        transport.on_met = self._met
        await transport.start()
        self._transport = transport
        self._report(Started(transport.address.port))
        while True:
            transport.tick()
            self._report(transport_status(transport))
            await asyncio.sleep(STATUS_INTERVAL_S)

    def refuse(self, reason: str) -> None:
        """Report that the start failed."""
        self._report(StartError(reason[:500]))

    def _made(self, begin: Begin) -> Transport:
        configure(begin.log_level, begin.log_form)
        return Transport(
            begin.name,
            begin.listen,
            Keyring(Path(begin.keys)) if begin.keys is not None else None,
            self._heard,
            settings=begin.settings,
            insecure=begin.insecure,
        )

    def _take(self, frame: bytes) -> None:
        order = ORDERS.decode(frame)
        if isinstance(order, Begin):
            if not self.begin.done():
                self.begin.set_result(order)
        elif self._transport is None:
            return
        elif isinstance(order, Send):
            self._transport.send(order.peer, order.address, order.payload)
        elif isinstance(order, Offence):
            self._transport.offence(order.peer, order.reason, order.strikes)
        elif isinstance(order, Greet):
            self._transport.greet(order.address)
        elif self._transport.keyring is not None:
            for raw in order.raw:
                self._transport.keyring.learn_any(raw)

    def _heard(self, peer: str, payload: bytes) -> None:
        if not self._report(PeerMessage(peer, payload)) and self._transport is not None:
            self._transport.counters["dropped: the agent is busy"] += 1

    def _met(self, member: str, address: Address | None, certificate: bytes) -> None:
        self._report(Met(member, address, certificate))

    def _report(self, report: Report) -> bool:
        return self.pipe.send(ENCODER.encode(report))


def transport_status(transport: Transport) -> TransportStatus:
    """Return the state of all connections of a transport."""
    ways = {}
    for peer in transport.known()[:MAX_LINKS]:
        link = transport.link(peer)
        ways[peer] = PeerEndpoint(link.dialled, link.accepted, link.rtt_s, link.shut_out)
    found = ((peer, transport.failure(peer)) for peer in transport.failures())
    failures = [(peer, failure) for peer, failure in found if failure is not None]
    dialled, accepted = transport.connections()
    now = asyncio.get_running_loop().time()
    return TransportStatus(
        dict(transport.counters),
        ways,
        dict(failures[-MAX_FAILURES:]),
        transport.refused_keys(now)[-MAX_REFUSED:],
        dialled,
        accepted,
        transport.refused_certificates(now)[-MAX_REFUSED:],
        transport.refusing()[-MAX_REFUSED:],
    )


async def serve(sock: socket.socket) -> None:
    """Serve the agent over `sock` until it is gone."""
    server = Server()
    await asyncio.get_running_loop().create_unix_connection(lambda: server.pipe, sock=sock)
    try:
        await server.run()
    except HostccError as error:
        server.refuse(one_line(str(error)))
        await asyncio.Event().wait()  # until the agent has read the reason and closes


def _exit(_why: str) -> None:
    # The agent is gone or sent an invalid message; all connections end with this process.
    os._exit(0)


def main() -> NoReturn:
    """Run the process."""
    # Signals are for the agent; this process ends with it.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sock = socket.socket(fileno=int(sys.argv[1]))
    try:
        confine(int(sys.argv[2]))
        asyncio.run(serve(sock))
    except Exception as error:  # noqa: BLE001 - said, and then nothing waits for connections
        log.defect("gossip process", error)
    os._exit(1)


if __name__ == "__main__":
    main()
