"""Addresses of members: host and port. Those that come from other members must be numeric."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from hostcc.coord.member_name import is_member_name
from hostcc.errors import InputError

DNS_SEED = "dns:"
_HOST = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?\Z")
_DOTTED = re.compile(r"^[0-9.]+\Z")


@dataclass(frozen=True)
class Address:
    """HOST:PORT, or [IPV6]:PORT."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if self.is_v6 else f"{self.host}:{self.port}"

    @property
    def endpoint(self) -> str:
        """The address in ZeroMQ's notation."""
        return f"tcp://{self}"

    @property
    def is_v6(self) -> bool:
        """Whether it is an IPv6 address."""
        return ":" in self.host

    @property
    def is_numeric(self) -> bool:
        """Whether the host is an IP address, so that no name has to be resolved."""
        return _ip(self.host) is not None

    @property
    def is_any(self) -> bool:
        """Whether it means all addresses of the host (0.0.0.0 or ::)."""
        found = _ip(self.host)
        return found is not None and found.is_unspecified

    @property
    def is_loopback(self) -> bool:
        """Whether it can be reached from this host only."""
        found = _ip(self.host)
        return found is not None and found.is_loopback


def parse(text: str, where: str, lowest_port: int = 1) -> Address:
    """Parse HOST:PORT or [IPV6]:PORT. Raises InputError that begins with `where`."""
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
    """Parse an address that another member published; None when it cannot be connected to."""
    try:
        found = parse(text, "address")
    except InputError:
        return None
    at = _ip(found.host)
    if at is None or at.is_unspecified or at.is_multicast:
        return None
    return found


def parse_seed(text: str, where: str) -> tuple[str, Address]:
    """Parse NAME@HOST:PORT; NAME tells whose key to expect there. Raises InputError."""
    name, at, rest = text.partition("@")
    if not at or not is_member_name(name):
        raise InputError(f"{where}: expected NAME@HOST:PORT, got {text!r:.100}")
    return name, parse(rest, where)


def is_dns_seed(text: str) -> bool:
    """Return whether a seed is a DNS name of many hosts rather than one member."""
    return text.startswith(DNS_SEED)


def parse_dns_seed(text: str, where: str) -> Address:
    """Parse dns:NAME:PORT; whoever has a certificate may answer there. Raises InputError."""
    rest = text.removeprefix(DNS_SEED)
    if rest == text or _ip(rest.rpartition(":")[0].strip("[]")) is not None:
        raise InputError(f"{where}: expected dns:NAME:PORT, got {text!r:.100}")
    return parse(rest, where)


def _is_host(text: str) -> bool:
    if _DOTTED.match(text):  # never a name (RFC 1123, 2.1)
        return _ip(text) is not None
    return _HOST.match(text) is not None and ".." not in text


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return None if "%" in text else found
