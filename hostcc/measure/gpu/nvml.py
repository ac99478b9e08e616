"""NVML, the NVIDIA driver's library: which GPUs there are, and one look at all of them.

Thin: values go out as they come in.  What a GPU or driver does not have is None.  A
driver that goes away is noticed and tried again; nothing here raises because of it.
Calls may block for as long as the driver does, so this belongs in a thread (poller.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from hostcc.measure.gpu.readings import MAX_GPUS, Sample
from hostcc.measure.gpu.unit import Unit

RETRY_S = 10.0
"""Between attempts to reach a driver that is not there, seconds."""
RESCAN_S = 30.0
"""Between looks for GPUs and MIG instances that came or went, seconds."""

_LOST = (1, 9, 18)  # UNINITIALIZED, DRIVER_NOT_LOADED, LIB_RM_VERSION_MISMATCH
_WORDS = {
    9: "the NVIDIA driver is not loaded",
    12: "no NVIDIA driver (libnvidia-ml.so.1 is not there)",
    18: "the NVIDIA library and driver differ in version: restart the agent",
}


class DriverLostError(Exception):
    """The driver went away: what we know about it is void."""

    def __init__(self, code: int) -> None:
        super().__init__(_words(code))


class Library:
    """pynvml with errors turned into None, but for those that end the session."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def ask(self, name: str, *args: object) -> Any:
        """What the function returns; None when it fails.  Raises DriverLostError."""
        function = getattr(self.module, name, None)
        if function is None:
            return None
        try:
            return function(*args)
        except self.module.NVMLError as error:
            if error.value in _LOST:
                raise DriverLostError(error.value) from None
        except (AttributeError, TypeError, ValueError):
            pass  # a binding and a library that misunderstand each other
        return None

    def text(self, name: str, *args: object) -> str | None:
        """The same, for what is a string."""
        answer = self.ask(name, *args)
        if isinstance(answer, bytes):
            answer = answer.decode(errors="replace")
        return answer[:128] if isinstance(answer, str) else None

    def number(self, name: str, *args: object) -> int | None:
        """The same, for what is a whole number that is not negative."""
        answer = self.ask(name, *args)
        return answer if isinstance(answer, int) and answer >= 0 else None


class Nvml:
    """A session with the driver, opened at the first look.  For one thread only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._library: Library | None = None
        self._units: list[Unit] = []
        self._names: list[str] = []
        self._retry_at = float("-inf")
        self._rescan_at = 0.0
        self._why = ""

    def sample(self) -> Sample:
        """Every GPU since the look before; nothing at the first look, and without a driver."""
        now = self._clock()
        try:
            library = self._library or self._open(now)
            if library is None:
                return Sample(why=self._why)
            if now >= self._rescan_at:
                self._rescan(library)
                self._rescan_at = now + RESCAN_S
            found = [unit.read(library, self._clock) for unit in self._units]
        except DriverLostError as error:
            self.close()
            self._why, self._retry_at = str(error), now + RETRY_S
            return Sample(why=self._why)
        readings = tuple(reading for reading in found if reading is not None)
        return Sample(readings, "" if self._units else "no GPU")

    def close(self) -> None:
        """End the session, so that the driver can be unloaded; the next look opens a new one."""
        library, self._library = self._library, None
        units, self._units, self._names = self._units, [], []
        self._retry_at = float("-inf")
        if library is None:
            return
        try:
            for unit in units:
                unit.close(library)
            library.ask("nvmlShutdown")
        except DriverLostError:
            return

    def _open(self, now: float) -> Library | None:
        if now < self._retry_at:
            return None
        self._retry_at = now + RETRY_S
        try:
            import pynvml
        except ImportError:
            self._why = "the Python package nvidia-ml-py is missing"
            return None
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            self._why = _words(error.value)
            return None
        self._library, self._why, self._rescan_at = Library(pynvml), "", now
        return self._library

    def _rescan(self, library: Library) -> None:
        found: dict[str, tuple[Any, int | None, list[Any]]] = {}
        for index in range(min(library.number("nvmlDeviceGetCount") or 0, MAX_GPUS)):
            handle = library.ask("nvmlDeviceGetHandleByIndex", index)
            if handle is not None:
                uuid = library.text("nvmlDeviceGetUUID", handle) or f"GPU-{index}"
                found |= _instances(library, handle, uuid)
        names = sorted(
            f"{uuid} {[library.text('nvmlDeviceGetUUID', part) for part in parts]}"
            for uuid, (_, _, parts) in found.items()
        )
        if names == self._names:
            return  # handles stay valid, and so do the samples taken
        for unit in self._units:
            unit.close(library)
        self._names = names
        self._units = [
            Unit(library, uuid, handle, instance, parts)
            for uuid, (handle, instance, parts) in list(found.items())[:MAX_GPUS]
        ]


def _instances(
    library: Library, handle: Any, uuid: str
) -> dict[str, tuple[Any, int | None, list[Any]]]:
    """The GPU, or its GPU instances in MIG mode: (GPU, instance, handles that have processes).

    Compute instances of one GPU instance share its counters, so they are one unit.
    """
    mode = library.ask("nvmlDeviceGetMigMode", handle)
    if not mode or not mode[0]:
        return {uuid: (handle, None, [handle])}
    parts: dict[int, list[Any]] = {}
    for index in range(min(library.number("nvmlDeviceGetMaxMigDeviceCount", handle) or 0, 64)):
        part = library.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
        instance = None if part is None else library.number("nvmlDeviceGetGpuInstanceId", part)
        if instance is not None:
            parts.setdefault(instance, []).append(part)
    return {f"{uuid}/gi{number}": (handle, number, those) for number, those in parts.items()}


def _words(code: int) -> str:
    return _WORDS.get(code, f"NVML error {code}")
