"""Load a tracing program with bcc; one line names what is missing when that fails."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from hostcc.bpf.loader.btf import Btf
from hostcc.bpf.loader.elf import FormatError
from hostcc.errors import Exit, HostccError
from tools.tracing.kernel_layout import check_tracepoint, defines

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "progs"
UNPACKED = HERE.parent.parent / ".headers/kernel"
"""Where tools/setup puts kernel headers when the host has none."""
VMLINUX = Path("/sys/kernel/btf/vmlinux")
ARCHIVE = Path("/sys/kernel/kheaders.tar.xz")


class SetupError(HostccError):
    """Something that tracing needs is not on this host."""

    exit_status = Exit.BAD_INPUT


def kernel_btf() -> Btf:
    """The types of the running kernel.  Raises SetupError."""
    try:
        return Btf(VMLINUX.read_bytes())
    except (OSError, FormatError) as error:
        raise SetupError(
            f"{VMLINUX}: expected the kernel's BTF ({error}); it needs CONFIG_DEBUG_INFO_BTF"
        ) from None


def require_root() -> None:
    """Raise SetupError unless this is root."""
    if os.geteuid():
        raise SetupError("needs root: tracing loads BPF programs")


def headers_environment(
    environment: Mapping[str, str], modules: Path, archive: Path, unpacked: Path
) -> dict[str, str]:
    """What to add to the environment so that bcc finds kernel headers.  Raises SetupError.

    `modules` is the running kernel's directory below /lib/modules, `archive` the headers that
    the kernel itself may offer: bcc finds both by itself.
    """
    if environment.get("BCC_KERNEL_SOURCE"):
        return {}
    if (modules / "build/include").is_dir() or archive.exists():
        return {}
    if (unpacked / "include").is_dir():
        return {"BCC_KERNEL_SOURCE": str(unpacked)}
    raise SetupError(
        "bcc needs kernel headers, of this kernel or one near it: run tools/setup "
        f"(after rm -r {unpacked.parent} if they could not be had before), install "
        "linux-headers, or set BCC_KERNEL_SOURCE"
    )


def load_bcc() -> Any:
    """The class bcc.BPF.  Raises SetupError."""
    modules = Path("/lib/modules") / platform.release()
    os.environ.update(headers_environment(os.environ, modules, ARCHIVE, UNPACKED))
    try:
        from bcc import BPF
    except ImportError as error:
        raise SetupError(
            f"bcc cannot be imported ({error}): install python3-bpfcc and use /usr/bin/python3 "
            "or a virtual environment that sees system packages; tools/setup does both"
        ) from None
    return BPF


class Program:
    """A loaded and attached program of progs/; a context manager that detaches it.

    `parts` are files below progs/ without the `.bcc.c`, concatenated.  `macros` are defined in
    addition to the kernel's layout.  Raises SetupError, or LayoutError when the kernel is
    not as expected.
    """

    def __init__(
        self,
        parts: Iterable[str],
        tracepoints: Iterable[str],
        macros: Mapping[str, int | str] | None = None,
        *,
        btf: Btf | None = None,
    ) -> None:
        self._records: list[Any] = []
        require_root()
        bpf = load_bcc()
        source = "\n".join((PROGRAMS / f"{part}.bcc.c").read_text() for part in parts)
        types = btf or kernel_btf()
        for name in tracepoints:
            check_tracepoint(types, name)
        values = {**defines(types, source), **(macros or {})}
        flags = [f"-D{name}={value}" for name, value in values.items()]
        try:
            self._bpf = bpf(text=source.encode(), cflags=flags)
        except Exception as error:  # noqa: BLE001 - bcc raises nothing more specific
            raise SetupError(
                f"bcc could not load the program for this kernel: {str(error)[:200]}"
            ) from None

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bpf.cleanup()

    def table(self, name: str) -> Any:
        """A map, as bcc's table."""
        return self._bpf[name.encode()]

    def rows(self, name: str) -> list[tuple[Any, Any]]:
        """All (key, value) of a hash map, copied."""
        return [(_copy(key), _copy(value)) for key, value in self.table(name).items()]

    def collect(self, name: str, record: str) -> None:
        """Have `poll` return the records of the ring buffer `name`.

        `record` is a map whose values have their type: bcc knows nested structs in maps only.
        """
        form = self.table(record).Leaf

        def receive(_context: Any, data: Any, size: int) -> int:
            # Nothing that may raise: it would be lost in bcc's C code.
            self._records.append(form.from_buffer_copy(ctypes.string_at(data, size)))
            return 0

        self.table(name).open_ring_buffer(receive)

    def poll(self, timeout_s: float) -> list[Any]:
        """Wait for records of ring buffers; returns those that came."""
        self._bpf.ring_buffer_poll(int(timeout_s * 1000))
        records, self._records = self._records, []
        return records

    def raw_function(self, name: str) -> int:
        """Descriptor of a function loaded as a raw tracepoint program, but attached to none."""
        loaded = self._bpf.load_func(name.encode(), self._bpf.RAW_TRACEPOINT)
        return int(loaded.fd)


def _copy(value: Any) -> Any:
    """A ctypes value that does not share memory with anything."""
    return type(value).from_buffer_copy(value)


def text_of(raw: bytes) -> str:
    """A C string of at most 16 bytes as bcc hands it over."""
    return raw.partition(b"\0")[0].decode(errors="replace")


def octets(value: Any) -> bytes:
    """A ctypes array as bytes."""
    return ctypes.string_at(ctypes.addressof(value), ctypes.sizeof(value))
