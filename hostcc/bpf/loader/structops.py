"""Finds struct_ops variables inside an object file: their programs, and their kernel names.

The kernel knows a struct_ops by the `name` inside it, which is the same in every process that
loads the file.  libbpf cannot change it, so it is changed in the file's bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hostcc.bpf.loader.btf import VAR, Btf
from hostcc.bpf.loader.elf import Elf, FormatError

SECTIONS = (".struct_ops", ".struct_ops.link")
STT_FUNC = 2


@dataclass(slots=True)
class StructOps:
    """One variable of a struct_ops type."""

    kernel_name: str
    """Its name in the kernel; changed by `rename`."""
    name_at: int
    """Offset of its name in the file, and the bytes there."""
    name_bytes: int
    programs: tuple[str, ...]
    """The programs behind its operations."""
    wanted: bool = True


def find(elf: Elf, btf: Btf) -> dict[str, StructOps]:
    """Find all struct_ops variables of an object, by variable name.  Raises FormatError."""
    found = {}
    functions = {symbol.name for symbol in elf.symbols if symbol.kind == STT_FUNC}
    for section in SECTIONS:
        references = elf.references(section)
        for name, symbol in elf.variables(section).items():
            start = elf.file_offset(symbol)
            at, width = _name_field(btf, name)
            if at + width > symbol.size:
                raise FormatError(f"struct_ops {name}: its name is outside it")
            text = elf.data[start + at : start + at + width].split(b"\0")[0]
            span = range(symbol.offset, symbol.offset + symbol.size)
            programs = tuple(who for where, who in references if where in span and who in functions)
            kernel_name = text.decode("ascii", "replace")
            found[name] = StructOps(kernel_name, start + at, width, programs)
    return found


def rename(data: bytes, known: Mapping[str, StructOps], names: Mapping[str, str]) -> bytes:
    """Return the file with the kernel names of some struct_ops changed; updates `known`.

    Raises FormatError for a variable that does not exist or a name that does not fit.
    """
    patched = bytearray(data)
    for variable, name in names.items():
        ops = known.get(variable)
        if ops is None:
            there = ", ".join(sorted(known)) or "none"
            raise FormatError(f"no struct_ops {variable}; there are: {there}")
        encoded = name.encode("ascii", "replace")
        if not 0 < len(encoded) < ops.name_bytes or not name.isprintable() or not name.isascii():
            raise FormatError(
                f"struct_ops {variable}: name {name!r} must be 1 to {ops.name_bytes - 1}"
                " printable ASCII characters"
            )
        patched[ops.name_at : ops.name_at + ops.name_bytes] = encoded.ljust(ops.name_bytes, b"\0")
        ops.kernel_name = name
    return bytes(patched)


def _name_field(btf: Btf, variable: str) -> tuple[int, int]:
    try:
        var = btf.type(btf.find(variable, frozenset({VAR})))
        offset, form = btf.member_offset(var.size_or_type, "name")
    except KeyError:
        raise FormatError(f"struct_ops {variable} has no member `name`") from None
    return offset, form.itemsize
