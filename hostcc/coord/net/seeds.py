"""Addresses of the members named in the configuration, resolved periodically in the background."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Iterator

from hostcc.coord.net.address import Address, parse_numeric

LOOKUP_INTERVAL_S = 60.0
LOOKUP_TIMEOUT_S = 10.0
"""Seconds to wait for a name server; the thread that asks it is given up then."""
MAX_ADDRESSES = 64
"""Addresses used of one DNS name."""


class Seeds:
    """Configured members with their resolved addresses, and DNS names of unnamed ones."""

    def __init__(self, seeds: Iterable[tuple[str, Address]], dns: Iterable[Address] = ()) -> None:
        self.dns = tuple(dns)
        """DNS names with ports, at whose addresses members have certificates."""
        self._at: dict[Address, tuple[Address, ...]] = {}
        """DNS name -> its addresses at the last lookup."""
        self._failed: dict[Address, str] = {}
        """DNS name -> why it has no address."""
        self._met: dict[str, Address] = {}
        """Member -> where it answered a greeting."""
        self._answered: set[Address] = set()
        """DNS names at one of whose addresses a member answered before the last lookup."""
        self._seeds = dict(seeds)
        self._found = {name: at for name, at in self._seeds.items() if at.is_numeric}
        self._unresolved: dict[str, str] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._seeds)

    def address(self, name: str) -> Address | None:
        """Return a member's numeric address; None: not configured, or not resolved."""
        return self._found.get(name) or self._met.get(name)

    def meet(self, name: str, address: Address) -> None:
        """Remember the address at which a member has answered."""
        if name in self._met or len(self._met) < MAX_ADDRESSES * max(1, len(self.dns)):
            self._met[name] = address

    def unmet(self) -> Iterator[Address]:
        """Iterate over addresses of DNS names at which nobody has answered yet."""
        met = set(self._met.values())
        return (at for found in self._at.values() for at in found if at not in met)

    def dns_failure(self, name: Address) -> str:
        """Return why a DNS name leads to no member; empty: it does, or was not looked up yet."""
        if name in self._failed:
            return f"its name has no address ({self._failed[name]})"
        met = set(self._met.values())
        if name in self._at and met.isdisjoint(self._at[name]):
            return f"at none of its {len(self._at[name])} addresses is a certified member"
        return ""

    def reached(self, name: Address) -> bool:
        """Return whether a member answers at an address of a DNS name."""
        return name in self._answered or self._is_met(name)

    def _is_met(self, name: Address) -> bool:
        return not set(self._met.values()).isdisjoint(self._at.get(name, ()))

    def configured(self, name: str) -> Address:
        """Return the address as configured."""
        return self._seeds[name]

    def unresolved(self, name: str) -> str:
        """Return why a name has no address; empty: it has one, or was not looked up yet."""
        return self._unresolved.get(name, "")

    async def look_up(self) -> list[Address]:
        """Look the DNS names up once; return all their addresses."""
        for at in self.dns:
            await self._look_up(at)
        return [at for found in self._at.values() for at in found]

    async def run(self) -> None:
        """Resolve host names repeatedly, for ever."""
        names = {name: at for name, at in self._seeds.items() if not at.is_numeric}
        while names or self.dns:
            await self.look_up()
            for name, at in names.items():
                await self._resolve(name, at)
            await asyncio.sleep(LOOKUP_INTERVAL_S)

    async def _look_up(self, name: Address) -> None:
        found, why = await _addresses(name)
        if why:  # what was found before stays: name servers fail, too
            self._failed[name] = why
            return
        self._failed.pop(name, None)
        (self._answered.add if self._is_met(name) else self._answered.discard)(name)
        self._at[name] = found
        # Once a minute everybody is asked anew: another host may have the address by now.
        self._met = {who: at for who, at in self._met.items() if at not in found}

    async def _resolve(self, name: str, at: Address) -> None:
        found, why = await _addresses(at)
        if why:
            self._unresolved[name] = why
            return
        self._unresolved.pop(name, None)
        if found:
            self._found[name] = found[0]


async def _addresses(at: Address) -> tuple[tuple[Address, ...], str]:
    """Return (the addresses of a host name, empty), or (nothing, why there is none)."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(LOOKUP_TIMEOUT_S):
            found = await loop.getaddrinfo(at.host, at.port, type=socket.SOCK_STREAM)
    except TimeoutError:
        return (), f"no name server answered within {LOOKUP_TIMEOUT_S:g} s"
    except OSError as error:
        return (), (error.strerror or str(error)).lower()
    except UnicodeError:
        return (), "no name that can be asked for"
    hosts = dict.fromkeys(str(one[4][0]) for one in found)
    return tuple(Address(host, at.port) for host in list(hosts)[:MAX_ADDRESSES]), ""


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
