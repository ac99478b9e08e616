"""Parses as much of ELF as a BPF object needs: sections, symbols, relocations.  Pure.

Bounds-checked.  libbpf offers no way to change a struct_ops before it is loaded, so its name is
changed in the file's bytes; this finds where they are.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

EM_BPF = 247
ET_REL = 1
SHT_SYMTAB, SHT_NOBITS, SHT_REL = 2, 8, 9
STT_OBJECT = 1
_HEADER = struct.Struct("=16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("=IIQQQQIIQQ")
_SYMBOL = struct.Struct("=IBBHQQ")
_REL = struct.Struct("=QQ")


class FormatError(ValueError):
    """The bytes are not a well-formed BPF object; the message says why."""


@dataclass(frozen=True, slots=True)
class Section:
    """One section: where its bytes lie in the file."""

    name: str
    kind: int
    offset: int
    size: int
    link: int
    info: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """One symbol: `section` is an index, `offset` counts from the section's start."""

    name: str
    kind: int
    section: int
    offset: int
    size: int


class Elf:
    """A parsed object.  Raises FormatError for anything that is not a BPF relocatable."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        try:
            self.sections = self._read_sections()
            self.symbols = self._read_symbols()
        except (struct.error, OverflowError) as error:  # an offset that no buffer can have
            raise FormatError(f"damaged ELF file: {error}") from error

    def bytes_of(self, name: str) -> bytes:
        """Return the contents of the section `name`; FormatError when there is none."""
        for section in self.sections:
            if section.name == name:
                return self._slice(section)
        raise FormatError(f"no section {name}; was it compiled with -g?")

    def variables(self, section: str) -> dict[str, Symbol]:
        """Return the variables in `section`, by name."""
        indices = {i for i, entry in enumerate(self.sections) if entry.name == section}
        return {
            symbol.name: symbol
            for symbol in self.symbols
            if symbol.kind == STT_OBJECT and symbol.section in indices
        }

    def file_offset(self, symbol: Symbol) -> int:
        """Return where in the file the symbol's bytes start."""
        section = self.sections[symbol.section]
        if symbol.offset + symbol.size > section.size:
            raise FormatError(f"symbol {symbol.name} is outside its section")
        return section.offset + symbol.offset

    def references(self, section: str) -> list[tuple[int, str]]:
        """List relocations of `section`: (offset in it, name of the symbol referred to)."""
        found = []
        for entry in self.sections:
            if entry.kind != SHT_REL or entry.info >= len(self.sections):
                continue
            if self.sections[entry.info].name != section:
                continue
            body = self._slice(entry)
            for offset, info in _REL.iter_unpack(body[: len(body) // _REL.size * _REL.size]):
                index = info >> 32
                if index >= len(self.symbols):
                    raise FormatError(f"relocation in {section} names no symbol")
                found.append((offset, self.symbols[index].name))
        return found

    def _read_sections(self) -> list[Section]:
        header = _HEADER.unpack_from(self.data)
        ident, kind, machine, start = header[0], header[1], header[2], header[6]
        entry_size, count, names_index = header[11], header[12], header[13]
        if ident[:5] != b"\x7fELF\x02":
            raise FormatError("not a 64-bit ELF file")
        if kind != ET_REL or machine != EM_BPF:
            raise FormatError("not a BPF object")
        if entry_size != _SECTION.size or names_index >= count:
            raise FormatError("damaged ELF section table")
        raw = [_SECTION.unpack_from(self.data, start + i * entry_size) for i in range(count)]
        for row in raw:
            if row[1] != SHT_NOBITS and row[4] + row[5] > len(self.data):
                raise FormatError("a section reaches beyond the end of the file")
        names = self.data[raw[names_index][4] : raw[names_index][4] + raw[names_index][5]]
        return [
            Section(_string(names, row[0]), row[1], row[4], row[5], row[6], row[7]) for row in raw
        ]

    def _read_symbols(self) -> list[Symbol]:
        for section in self.sections:
            if section.kind == SHT_SYMTAB:
                if section.link >= len(self.sections) or section.size % _SYMBOL.size:
                    raise FormatError("damaged ELF symbol table")
                names = self._slice(self.sections[section.link])
                return [
                    Symbol(_string(names, row[0]), row[1] & 0xF, row[3], row[4], row[5])
                    for row in _SYMBOL.iter_unpack(self._slice(section))
                ]
        raise FormatError("no symbol table")

    def _slice(self, section: Section) -> bytes:
        if section.kind == SHT_NOBITS:
            return b""
        return self.data[section.offset : section.offset + section.size]


def _string(table: bytes, offset: int) -> str:
    end = table.find(b"\0", offset)
    if offset > len(table) or end < 0:
        raise FormatError("a name reaches beyond its string table")
    return name_of(table[offset:end])


def name_of(text: bytes) -> str:
    """Read a name out of a string table: C identifiers and section names, so ASCII."""
    try:
        return text.decode("ascii")
    except UnicodeDecodeError as error:
        raise FormatError("a name is not ASCII") from error
