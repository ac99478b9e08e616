"""Job ids from what was found: valid whatever the input, and equal for equal input."""

from __future__ import annotations

import hashlib
import ipaddress
import re

from hostcc.limits import is_job_name

MAX = 64
_BAD = re.compile(r"[^A-Za-z0-9._:-]")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,252})\Z")
_NUMBER = re.compile(r"[0-9]{1,10}\Z")


def job_id(*parts: str) -> str:
    """The parts joined by ":"; a digest stands for what a job name cannot hold."""
    whole = ":".join(parts)
    if is_job_name(whole):
        return whole
    digest = hashlib.sha256(whole.encode(errors="surrogateescape")).hexdigest()[:12]
    return f"{_BAD.sub('-', whole)[: MAX - 13]}-{digest}"


def number(text: str | None) -> int | None:
    """A whole number of at most ten digits; None for anything else."""
    return int(text) if text is not None and _NUMBER.match(text) else None


def address(text: str | None) -> str | None:
    """A host's name or IP address in one spelling; None for anything else."""
    if not text:
        return None
    bare = text.removeprefix("[").removesuffix("]").rstrip(".").lower()
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        return bare if _HOST.match(bare) else None


def is_loopback(host: str) -> bool:
    """Whether an address, as `address` spells it, means "this host" everywhere."""
    if host == "localhost" or host.startswith("localhost."):
        return True
    try:
        known = ipaddress.ip_address(host)
    except ValueError:
        return False
    return known.is_loopback or known.is_unspecified
