"""Addresses of the members named in the configuration, resolved periodically in the background."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Iterator

from hostcc.coord.net.address import Address, parse_numeric

LOOKUP_INTERVAL_S = 60.0


class Seeds:
    """Configured members with their resolved addresses."""

    def __init__(self, seeds: Iterable[tuple[str, Address]]) -> None:
        self._seeds = dict(seeds)
        self._found = {name: at for name, at in self._seeds.items() if at.is_numeric}
        self._unresolved: dict[str, str] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._seeds)

    def address(self, name: str) -> Address | None:
        """Return a member's numeric address; None: not configured, or not resolved."""
        return self._found.get(name)

    def configured(self, name: str) -> Address:
        """Return the address as configured."""
        return self._seeds[name]

    def unresolved(self, name: str) -> str:
        """Return why a name has no address; empty: it has one, or was not looked up yet."""
        return self._unresolved.get(name, "")

    async def run(self) -> None:
        """Resolve host names repeatedly, for ever."""
        names = {name: at for name, at in self._seeds.items() if not at.is_numeric}
        while names:
            for name, at in names.items():
                await self._resolve(name, at)
            await asyncio.sleep(LOOKUP_INTERVAL_S)

    async def _resolve(self, name: str, at: Address) -> None:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(at.host, at.port, type=socket.SOCK_STREAM)
        except OSError as error:
            self._unresolved[name] = (error.strerror or str(error)).lower()
            return
        except UnicodeError:
            self._unresolved[name] = "no name that can be asked for"
            return
        self._unresolved.pop(name, None)
        if found:
            self._found[name] = Address(str(found[0][4][0]), at.port)


def advertised(listen: Address, seeds: Iterable[Address]) -> str:
    """Return the address at which others reach this host; empty when it cannot be determined.

    A host that listens on all addresses uses the one from which it would connect to a seed. Asking
    the kernel for that address sends nothing.
    """
    if not listen.is_any:
        return str(listen)
    for seed in seeds:
        family = socket.AF_INET6 if seed.is_v6 else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as probe:
            try:
                probe.connect((seed.host, seed.port))
            except OSError:
                continue
            own = Address(str(probe.getsockname()[0]), listen.port)
        if parse_numeric(str(own)) is not None:
            return str(own)
    return ""
