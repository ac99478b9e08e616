"""Members with keys and transports on loopback, for tests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path

from hostcc.coord.keys import files, identity
from hostcc.coord.keys.identity import HostKeys
from hostcc.coord.keys.keyring import Keyring
from hostcc.coord.net.address import Address
from hostcc.coord.net.transport import Transport
from hostcc.coord.net.transport_settings import TransportSettings
from tests.patience import eventually

LOOPBACK = Address("127.0.0.1", 0)
TICK_S = 0.1


def make_keys(top: Path, names: Iterable[str]) -> dict[str, HostKeys]:
    """A key directory for each name below `top`; everybody allows everybody."""
    hosts = {name: HostKeys(name, (identity.generate(time.time() - 1),)) for name in names}
    for name, host in hosts.items():
        files.write_host(top / name, host)
        for other in hosts.values():
            files.allow(top / name, other.member)
    return hosts


class End:
    """A transport and what it has received."""

    def __init__(
        self,
        name: str,
        directory: Path | None,
        settings: TransportSettings | None = None,
        listen: Address = LOOPBACK,
    ) -> None:
        self.got: list[tuple[str, bytes]] = []
        keyring = Keyring(directory) if directory is not None else None
        self.transport = Transport(
            name,
            listen,
            keyring,
            lambda peer, data: self.got.append((peer, data)),
            settings=settings,
        )

    async def __aenter__(self) -> End:
        await self.transport.start()
        self._ticks = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ticks.cancel()
        await self.transport.stop()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.transport.tick()

    def send(self, to: End, data: bytes) -> bool:
        return self.transport.send(to.transport.name, to.transport.address, data)

    async def said(self, to: End, data: bytes) -> None:
        """Send until it has arrived."""

        def arrived() -> bool:
            if (self.transport.name, data) in to.got:
                return True
            self.send(to, data)
            return False

        await eventually(arrived)
