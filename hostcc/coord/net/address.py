"""Where members listen: an address and a port, numeric wherever it comes from outside."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from hostcc.coord.names import is_member_name
from hostcc.errors import InputError

_HOST = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?\Z")


@dataclass(frozen=True)
class Address:
    """HOST:PORT, or [IPV6]:PORT."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if self.is_v6 else f"{self.host}:{self.port}"

    @property
    def endpoint(self) -> str:
        """For ZeroMQ."""
        return f"tcp://{self}"

    @property
    def is_v6(self) -> bool:
        """Whether it is an IPv6 address."""
        return ":" in self.host

    @property
    def is_numeric(self) -> bool:
        """Whether no name has to be looked up."""
        return _ip(self.host) is not None

    @property
    def is_any(self) -> bool:
        """Whether it stands for every address of the host."""
        found = _ip(self.host)
        return found is not None and found.is_unspecified

    @property
    def is_loopback(self) -> bool:
        """Whether only this host reaches it."""
        found = _ip(self.host)
        return found is not None and found.is_loopback


def parse(text: str, where: str, lowest_port: int = 1) -> Address:
    """HOST:PORT or [IPV6]:PORT.  Raises InputError."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    inner = host[1:-1] if bracketed else host
    fits = _ip(inner) is not None and ":" in inner if bracketed else _is_host(inner)
    if not (colon and fits and re.fullmatch(r"[0-9]{1,5}", port)):
        raise InputError(f"{where}: expected HOST:PORT or [IPV6]:PORT, got {text!r:.100}")
    if not lowest_port <= int(port) <= 65535:
        raise InputError(f"{where}: expected a port from {lowest_port} to 65535, got {port}")
    return Address(inner, int(port))


def parse_numeric(text: str) -> Address | None:
    """An address from another member; None when it is not one that could be dialled."""
    try:
        found = parse(text, "address")
    except InputError:
        return None
    at = _ip(found.host)
    if at is None or at.is_unspecified or at.is_multicast:
        return None
    return found


def parse_seed(text: str, where: str) -> tuple[str, Address]:
    """NAME@HOST:PORT: the name says whose key to expect there.  Raises InputError."""
    name, at, rest = text.partition("@")
    if not at or not is_member_name(name):
        raise InputError(f"{where}: expected NAME@HOST:PORT, got {text!r:.100}")
    return name, parse(rest, where)


def _is_host(text: str) -> bool:
    return _HOST.match(text) is not None and ".." not in text


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return None if "%" in text else found
