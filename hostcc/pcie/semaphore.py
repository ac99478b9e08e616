"""Semaphores of PCIe links for Python: make a region, join a link, use it in turn.

The agent makes a region (`memory`), hands it out and says who shares what; a job asks for it
(`Semaphores.open`), joins its link at its level and calls `enter`, `boundary`, `leave` around
its messages.  The rules and bounds are in docs/internals/pcie.md; the work is done by semaphore.c.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hostcc.errors import HostccError, InputError
from hostcc.pcie import handout, layout
from hostcc.pcie.handout import Handout
from hostcc.pcie.library import PCIE
from hostcc.system.closing import Closing
from hostcc.system.namespaces import pid_namespace

DEFAULT_PATH = Path("/dev/shm/hostcc-pcie")
LONGEST_S = 10.0


@dataclass(frozen=True)
class Settings:
    """How one link is shared; docs/internals/pcie.md says what was measured for each."""

    linger_s: float = 100e-6
    """A level counts as using the link for so long after each message: lower ones wait."""
    aging_s: float = 20e-3
    """Time of waiting after which a waiter rises by one level; 0: never."""
    patience_s: float = 1.0
    """Longest wait for one message."""
    lease_s: float = 0.1
    """A holder without a message boundary for so long loses the link."""
    granule: int = 1 << 20
    """Bytes after which a holder makes way for its own level; for higher ones it does so at
    every message."""


@dataclass(frozen=True)
class LinkState:
    """State of one link."""

    name: str
    pids: tuple[int, ...]
    """Participants, but for those that are known to have died."""
    waiting: int
    handovers: int
    """Times that a participant waited and then got the link."""
    rescues: int
    """Times that the link was taken from a dead or silent holder."""
    given_up: int
    """Times that a participant went ahead after its patience."""


class Semaphores(Closing):
    """A region of semaphores.  Raises HostccError where the system refuses."""

    def __init__(self, path: Path, fd: int) -> None:
        """`fd`: of sealed memory; closed here."""
        self._given: tuple[Handout, int] | None = None
        self._library = _library()
        self._map = _Map()
        self.path = path
        error = self._library.hcc_sem_map(fd, ctypes.byref(self._map))
        os.close(fd)
        if error:
            raise InputError(f"{path}: expected a region of PCIe semaphores, got something else")
        self._region = layout.Region.from_address(self._map.region)
        first = self._map.region + ctypes.sizeof(layout.Region)
        self._links = (layout.Link * self._map.links).from_address(first)
        self._open = True

    @classmethod
    def create(
        cls, links: Sequence[tuple[str, Settings]], path: Path = DEFAULT_PATH, stale_s: float = 0.0
    ) -> Semaphores:
        """Make the region of these links, given to root and us at a socket until it is closed.

        `stale_s`: without a `beat` for so long nobody waits; 0: there is no agent to beat.
        """
        fd = memory(links, stale_s)
        try:
            made = cls(path, os.dup(fd))
            made._given = Handout(path, fd), fd
        except HostccError:
            os.close(fd)
            raise
        return made

    @classmethod
    def open(cls, path: Path = DEFAULT_PATH) -> Semaphores:
        """Open the region that is given at a socket."""
        return cls(path, handout.ask(path))

    def beat(self) -> None:
        """Write the agent's heartbeat."""
        self._region.beat = time.monotonic_ns()

    def set(self, link: int, settings: Settings) -> None:
        """Change how a link is shared, live."""
        check("link", settings)
        settings_of(self._links[link], settings)

    def write(self, links: Sequence[tuple[str, Settings]], stale_s: float) -> None:
        """Name all links of a fresh region, and set how they are shared."""
        self._region.stale_us = us(stale_s)
        for index, (name, settings) in enumerate(links):
            self._links[index].name = name.encode()
            self.set(index, settings)
        self.beat()

    def states(self) -> tuple[LinkState, ...]:
        """Read the states of all links."""
        return tuple(state_of(link) for link in self._links)

    def join(self, link: int, level: int) -> Semaphore:
        """Take part in a link's use at a level, 0 the highest; one per thread."""
        if not 0 <= link < self._map.links or not 0 <= level < layout.LEVELS:
            raise InputError(f"link {link}, level {level}: expected one of this region's")
        pointer = self._library.hcc_sem_join(ctypes.byref(self._map), link, level)
        if not pointer:
            raise HostccError(
                f"{self.path}: link {link} has {layout.CLIENTS} participants, and no room for more"
            )
        return Semaphore(self._library, pointer, self)

    def link_address(self, link: int) -> int:
        """Return the address of a link's memory, for other C code of this process."""
        return ctypes.addressof(self._links[link])

    def close(self) -> None:
        """Unmap it, after every `Semaphore` was closed."""
        if self._open:
            self._open = False
            if self._given is not None:
                self._given[0].close()
                os.close(self._given[1])
            self._library.hcc_sem_unmap(ctypes.byref(self._map))


class Semaphore(Closing):
    """One participant at one link."""

    def __init__(self, library: ctypes.CDLL, pointer: int, region: Semaphores) -> None:
        self._library = library
        self._pointer = ctypes.c_void_p(pointer)
        self._region = region  # keeps it mapped

    def enter(self) -> bool:
        """Wait before the first message of a burst; False: go ahead without the link."""
        return bool(self._library.hcc_sem_enter(self._pointer) == 0)

    def boundary(self, sent: int) -> bool:
        """Make way, where necessary, between two messages, the last of `sent` bytes."""
        return bool(self._library.hcc_sem_boundary(self._pointer, sent) == 0)

    def leave(self) -> None:
        """Release the link after the last message of a burst."""
        self._library.hcc_sem_leave(self._pointer)

    @property
    def pointer(self) -> ctypes.c_void_p:
        """The C object, for other C code of this process."""
        return self._pointer

    def close(self) -> None:
        """End the participation."""
        pointer, self._pointer = self._pointer, ctypes.c_void_p()
        self._library.hcc_sem_part(pointer)


class _Map(ctypes.Structure):
    _fields_ = (
        ("region", ctypes.c_void_p), ("size", ctypes.c_uint64), ("links", ctypes.c_uint32)
    )  # fmt: skip


_loaded: list[ctypes.CDLL] = []


def _library() -> ctypes.CDLL:
    # The compiled part, once.  Raises HostccError.
    if _loaded:
        return _loaded[0]
    try:
        library = ctypes.CDLL(str(PCIE.target))
    except OSError as error:
        raise HostccError(f"{error}; run python -m hostcc.verbs.build") from None
    wanted = layout.expected()
    found = (ctypes.c_uint32 * (len(wanted) + 1)).in_dll(library, "hcc_sem_layout")
    if tuple(found) != (*wanted, 0):
        raise HostccError(
            f"{PCIE.target}: built from other sources; run python -m hostcc.verbs.build"
        )
    pointer = ctypes.c_void_p
    library.hcc_sem_map.argtypes = [ctypes.c_int, pointer]
    library.hcc_sem_unmap.argtypes = [pointer]
    library.hcc_sem_unmap.restype = None
    library.hcc_sem_format.argtypes = [ctypes.c_int, ctypes.c_uint32]
    library.hcc_sem_join.argtypes = [pointer, ctypes.c_uint32, ctypes.c_uint32]
    library.hcc_sem_join.restype = pointer
    library.hcc_sem_part.argtypes = [pointer]
    library.hcc_sem_part.restype = None
    library.hcc_sem_enter.argtypes = [pointer]
    library.hcc_sem_boundary.argtypes = [pointer, ctypes.c_uint64]
    library.hcc_sem_leave.argtypes = [pointer]
    library.hcc_sem_leave.restype = None
    _loaded.append(library)
    return library


def memory(links: Sequence[tuple[str, Settings]], stale_s: float = 0.0) -> int:
    """Make sealed memory with a region of these links; a descriptor.  Raises HostccError."""
    if not 1 <= len(links) <= layout.MAX_LINKS:
        raise InputError(f"links: expected 1 to {layout.MAX_LINKS}, got {len(links)}")
    for name, settings in links:
        check(name, settings)
    try:
        fd = os.memfd_create("hostcc-pcie", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError as error:
        raise HostccError(f"PCIe semaphores: {error.strerror}") from None
    error_number = _library().hcc_sem_format(fd, len(links))
    if error_number:
        os.close(fd)
        raise HostccError(f"PCIe semaphores: {os.strerror(-error_number)}")
    with Semaphores(Path("PCIe semaphores"), os.dup(fd)) as made:
        made.write(links, stale_s)
    return fd


def settings_of(link: layout.Link, settings: Settings) -> None:
    """Write settings into a link's memory."""
    link.linger_us, link.aging_us = us(settings.linger_s), us(settings.aging_s)
    link.patience_us, link.lease_us = us(settings.patience_s), us(settings.lease_s)
    link.granule = settings.granule


def state_of(link: layout.Link) -> LinkState:
    """Read the state out of a link's memory."""
    own = _own_namespace()
    return LinkState(
        bytes(link.name).decode(errors="replace"),
        tuple(int(slot.pid) for slot in link.slots if slot.pid and not _has_died(slot, own)),
        int(link.waiting).bit_count(),
        int(link.handovers),
        int(link.rescues),
        int(link.given_up),
    )


def _own_namespace() -> int | None:
    try:
        return pid_namespace()
    except OSError:
        return None


def _has_died(slot: layout.Slot, own_namespace: int | None) -> bool:
    # Of a process in another PID namespace nobody knows.
    return bool(slot.pidns == own_namespace) and not Path("/proc", str(slot.pid)).exists()


def us(seconds: float) -> int:
    """Convert seconds to whole microseconds, as the memory has them."""
    return round(seconds * 1e6)


def check(name: str, settings: Settings) -> None:
    """Raise InputError for what cannot be a link's name or settings."""
    if not 1 <= len(name.encode()) < layout.NAME_BYTES:
        raise InputError(f"link name {name!r:.60}: expected 1 to {layout.NAME_BYTES - 1} bytes")
    for key in ("linger_s", "aging_s", "patience_s", "lease_s"):
        value = getattr(settings, key)
        if not 0 <= value <= LONGEST_S:
            raise InputError(f"{key}: expected 0 to {LONGEST_S:g} s, got {value}")
    if not 0 <= settings.granule < 1 << 63:
        raise InputError(f"granule: expected bytes, got {settings.granule}")
