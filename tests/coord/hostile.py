"""Those who should not get in, or not get far, for tests."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import TracebackType

import zmq

from hostcc.coord.keys.identity import PublicKey, SecretKey
from hostcc.coord.net.address import Address


class Attacker:
    """A ZeroMQ DEALER with keys of its choice; plain if it has none."""

    def __init__(
        self,
        at: Address,
        server: PublicKey | None = None,
        own: SecretKey | None = None,
        routing_id: bytes = b"",
        kind: int = zmq.DEALER,
    ) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self._context.socket(kind)
        self.socket.linger = 0
        self.socket.sndhwm = 0
        if own is not None and server is not None:
            self.socket.curve_serverkey = bytes.fromhex(server.curve)
            self.socket.curve_publickey = bytes.fromhex(own.public.curve)
            self.socket.curve_secretkey = bytes.fromhex(own.curve)
        if routing_id:
            self.socket.routing_id = routing_id
        self.socket.connect(at.endpoint)

    def __enter__(self) -> zmq.Socket[bytes]:
        return self.socket

    def __exit__(
        self, kind: type[BaseException] | None, value: object, trace: TracebackType | None
    ) -> None:
        self._context.destroy(linger=0)


class Tap:
    """Passes a connection on and keeps what the one who dials has said."""

    def __init__(self) -> None:
        self.said = bytearray()

    @asynccontextmanager
    async def before(self, target: Address) -> AsyncIterator[Address]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, back = await asyncio.open_connection(target.host, target.port)
            with suppress(OSError):
                await asyncio.gather(self._pass(reader, back, True), self._pass(there, writer))
            for stream in (back, writer):
                stream.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            yield Address("127.0.0.1", server.sockets[0].getsockname()[1])

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, keep: bool = False
    ) -> None:
        while data := await reader.read(65536):
            if keep:
                self.said += data
            writer.write(data)
            await writer.drain()
        writer.close()


async def ends(sock: socket.socket, within: float) -> None:
    """Wait until the other end closes a raw connection; raises TimeoutError."""
    loop = asyncio.get_running_loop()
    sock.setblocking(False)
    async with asyncio.timeout(within):
        with suppress(ConnectionError):
            while await loop.sock_recv(sock, 65536):
                pass


def raw(at: Address, data: bytes = b"") -> socket.socket:
    """A TCP connection over which something was said."""
    sock = socket.create_connection((at.host, at.port), timeout=10)
    sock.sendall(data)
    return sock
