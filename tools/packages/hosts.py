"""For which hosts packages are made."""

from __future__ import annotations

import platform
from dataclasses import dataclass


@dataclass(frozen=True)
class Host:
    """A distribution, with what packages for it need."""

    name: str
    python: str
    """Its Python, for which the carried packages are compiled."""
    suffix: str
    """Of the version: newer releases of a distribution sort later."""
    suite: str = ""


DEBIAN_12 = Host("debian12", "3.11", "+deb12", "bookworm")
UBUNTU_24_04 = Host("ubuntu24.04", "3.12", "+ubuntu24.04", "noble")
EL_9 = Host("el9", "3.11", ".el9")
DEBIAN_LIKE = (DEBIAN_12, UBUNTU_24_04)
PYTHONS = tuple(sorted({one.python for one in (*DEBIAN_LIKE, EL_9)}))
DEBIAN_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def machine() -> str:
    """The processor that packages are made for: this one's, because objects are compiled here."""
    return platform.machine()
