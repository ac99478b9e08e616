"""Layout of the semaphores' shared memory for ctypes; semaphore.h is the original."""

from __future__ import annotations

import ctypes

MAGIC = 0x6D65736363687063
VERSION = 1
LEVELS, CLIENTS, MAX_LINKS, NAME_BYTES = 8, 62, 64, 48
_u32, _u64 = ctypes.c_uint32, ctypes.c_uint64


class Slot(ctypes.Structure):
    """One participant in one link's use."""

    _fields_ = (
        ("pid", _u32), ("level", _u32), ("bell", _u32), ("reserved", _u32), ("pidns", _u64),
        ("ticket", _u64), ("since", _u64), ("seen", _u64), ("padding", _u64 * 2),
    )  # fmt: skip


class Link(ctypes.Structure):
    """One shared link."""

    _fields_ = (
        ("name", ctypes.c_char * NAME_BYTES),
        ("linger_us", _u32), ("aging_us", _u32), ("patience_us", _u32), ("lease_us", _u32),
        ("granule", _u64), ("handovers", _u64), ("rescues", _u64), ("given_up", _u64),
        ("padding", _u64 * 4),
        ("owner", _u64), ("waiting", _u64), ("tickets", _u64), ("padding2", _u64 * 5),
        ("last_use", _u64 * LEVELS), ("slots", Slot * CLIENTS),
    )  # fmt: skip


class Region(ctypes.Structure):
    """The header before the links."""

    _fields_ = (
        ("magic", _u64), ("version", _u32), ("links", _u32), ("size", _u64), ("beat", _u64),
        ("stale_us", _u32), ("reserved", _u32), ("padding", _u64 * 3),
    )  # fmt: skip


def expected() -> tuple[int, ...]:
    """List the values that the library's `hcc_sem_layout` has to return."""
    return (
        ctypes.sizeof(Slot), ctypes.sizeof(Link), ctypes.sizeof(Region),
        Region.beat.offset, Region.stale_us.offset,
        Link.linger_us.offset, Link.granule.offset, Link.given_up.offset, Link.owner.offset,
        Link.last_use.offset, Link.slots.offset, Slot.pidns.offset, Slot.since.offset,
        Slot.seen.offset, LEVELS, CLIENTS, MAX_LINKS, NAME_BYTES, VERSION,
    )  # fmt: skip
