"""Reads the types of a BPF object: numpy dtypes and enum constants out of its BTF.  Pure.

Format: Documentation/bpf/btf.rst of the kernel.  Python never repeats a C struct by hand:
the layout that the compiler chose is the one that is used.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from hostcc.bpf.loader.elf import FormatError, name_of

MAGIC = 0xEB9F
INT, PTR, ARRAY, STRUCT, UNION, ENUM, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT = range(1, 12)
FUNC, FUNC_PROTO, VAR, DATASEC, FLOAT, DECL_TAG, TYPE_TAG, ENUM64 = range(12, 20)
INT_SIGNED, INT_BOOL = 1, 4
MAX_DEPTH = 64
MAX_BYTES = 1 << 26

_HEADER = struct.Struct("=HBBIIIII")
_TYPE = struct.Struct("=III")
# Bytes after the common part: fixed, and per element of vlen.
_FIXED = {INT: 4, ARRAY: 12, VAR: 4, DECL_TAG: 4}
_EACH = {STRUCT: 12, UNION: 12, ENUM: 8, FUNC_PROTO: 8, DATASEC: 12, ENUM64: 12}
_TRANSPARENT = frozenset({TYPEDEF, VOLATILE, CONST, RESTRICT, TYPE_TAG})
_AGGREGATE = frozenset({STRUCT, UNION})

DType = np.dtype[Any]


@dataclass(frozen=True, slots=True)
class BtfType:
    """One type record: `size_or_type` is bytes or the id of another type, by kind."""

    kind: int
    name: str
    flag: bool
    size_or_type: int
    extra: bytes

    def rows(self, form: str) -> list[tuple[int, ...]]:
        """Unpack the elements that follow the record."""
        return list(struct.iter_unpack(form, self.extra))


class Btf:
    """The types of one object.  Raises FormatError for damaged BTF and unusable types."""

    def __init__(self, data: bytes) -> None:
        try:
            self._parse(data)
        except struct.error as error:
            raise FormatError(f"damaged BTF: {error}") from error
        self._dtypes: dict[int, DType] = {}

    def _parse(self, data: bytes) -> None:
        magic, version, _, header, types, types_len, strings, strings_len = _HEADER.unpack_from(
            data
        )
        if magic != MAGIC or version != 1:
            raise FormatError("not BTF of this machine's byte order")
        if header + max(types + types_len, strings + strings_len) > len(data):
            raise FormatError("BTF reaches beyond the end of its section")
        self._strings = data[header + strings : header + strings + strings_len]
        self._types = [BtfType(0, "void", False, 0, b"")]
        body = data[header + types : header + types + types_len]
        position = 0
        while position < len(body):
            name, info, size = _TYPE.unpack_from(body, position)
            kind, count = info >> 24 & 0x1F, info & 0xFFFF
            if not INT <= kind <= ENUM64:
                raise FormatError(f"BTF kind {kind} is unknown")
            start = position + _TYPE.size
            position = start + _FIXED.get(kind, 0) + count * _EACH.get(kind, 0)
            if position > len(body):
                raise FormatError("a BTF type reaches beyond the end of its section")
            self._types.append(
                BtfType(kind, self._string(name), info >> 31 == 1, size, body[start:position])
            )

    def _string(self, offset: int) -> str:
        end = self._strings.find(b"\0", offset)
        if end < 0:
            raise FormatError("a BTF name reaches beyond its string table")
        return name_of(self._strings[offset:end])

    def __len__(self) -> int:
        return len(self._types)

    def type(self, type_id: int) -> BtfType:
        """Return the record of a type id."""
        if not 0 <= type_id < len(self._types):
            raise FormatError(f"BTF has no type {type_id}")
        return self._types[type_id]

    def find(self, name: str, kinds: frozenset[int]) -> int:
        """Find the id of the type `name` of one of `kinds`; KeyError when there is none."""
        for type_id, entry in enumerate(self._types):
            if entry.name == name and entry.kind in kinds:
                return type_id
        raise KeyError(name)

    def resolve(self, type_id: int) -> int:
        """Follow typedefs and qualifiers to the id of the type behind them."""
        for _ in range(MAX_DEPTH):
            entry = self.type(type_id)
            if entry.kind not in _TRANSPARENT:
                return type_id
            type_id = entry.size_or_type
        raise FormatError("BTF typedefs go round in a circle")

    def named_dtype(self, name: str) -> DType:
        """Make the dtype of the struct, union, typedef or enum `name`; KeyError when unknown."""
        kinds = frozenset({STRUCT, UNION, TYPEDEF, ENUM, ENUM64, INT})
        return self.dtype(self.find(name, kinds))

    def variable_dtype(self, name: str) -> DType:
        """Make the numpy dtype of the global variable `name`; KeyError when there is none."""
        return self.dtype(self.type(self.find(name, frozenset({VAR}))).size_or_type)

    def dtype(self, type_id: int) -> DType:
        """Make a numpy dtype with the C layout of a type.

        char[n] is 'S<n>', a pointer 'u8', an enum its integer.  Members of anonymous
        structs and unions appear in the enclosing one; bit-fields are left out.
        """
        return self._dtype(type_id, 0)

    def enums(self) -> dict[str, int]:
        """Return all enum constants by name."""
        constants: dict[str, int] = {}
        for entry in self._types:
            if entry.kind == ENUM:
                for name, value in entry.rows("=Ii" if _signed(entry) else "=II"):
                    constants[self._string(name)] = value
            elif entry.kind == ENUM64:
                for name, low, high in entry.rows("=III"):
                    value = high << 32 | low
                    if entry.flag and high >> 31:
                        value -= 1 << 64
                    constants[self._string(name)] = value
        return constants

    def member_offset(self, type_id: int, member: str) -> tuple[int, DType]:
        """Return byte offset and dtype of a struct's member; KeyError when it has none such."""
        fields = self.dtype(type_id).fields
        if fields is None:
            raise KeyError(member)
        form, offset = fields[member][:2]
        return int(offset), form

    def _dtype(self, type_id: int, depth: int) -> DType:
        if depth > MAX_DEPTH:
            raise FormatError("BTF types are nested without end")
        type_id = self.resolve(type_id)
        if (known := self._dtypes.get(type_id)) is None:
            known = self._dtypes[type_id] = self._make(self.type(type_id), depth)
        return known

    def _make(self, entry: BtfType, depth: int) -> DType:
        if entry.kind in _AGGREGATE:
            return self._aggregate(entry, depth)
        if entry.kind == ARRAY:
            return self._array(entry, depth)
        if entry.kind == PTR:
            return np.dtype(np.uint64)
        if entry.kind == INT:
            (encoding,) = struct.unpack("=I", entry.extra)
            letter = "b" if encoding >> 24 == INT_BOOL else "u"
            return _number("i" if encoding >> 24 & INT_SIGNED else letter, entry)
        if entry.kind in {ENUM, ENUM64}:
            return _number("i" if _signed(entry) else "u", entry)
        if entry.kind == FLOAT:
            return _number("f", entry)
        raise FormatError(f"BTF type {entry.name or '(anonymous)'} has no size")

    def _array(self, entry: BtfType, depth: int) -> DType:
        element, _, count = struct.unpack("=III", entry.extra)
        base = self._dtype(element, depth + 1)
        if base.itemsize * count > MAX_BYTES:
            raise FormatError("a BTF array is implausibly large")
        target = self.type(self.resolve(element))
        if target.kind == INT and target.name == "char" and count:
            return np.dtype(f"S{count}")
        return np.dtype((base, (count,)))

    def _aggregate(self, entry: BtfType, depth: int) -> DType:
        if entry.size_or_type > MAX_BYTES:
            raise FormatError(f"BTF struct {entry.name} is implausibly large")
        names: list[str] = []
        formats: list[DType] = []
        offsets: list[int] = []
        for name_at, type_id, where in entry.rows("=III"):
            bits, width = (where & 0xFFFFFF, where >> 24) if entry.flag else (where, 0)
            if width:
                continue
            inner, name = self._dtype(type_id, depth + 1), self._string(name_at)
            if name:
                names.append(name)
                formats.append(inner)
                offsets.append(bits // 8)
                continue
            for field, (form, offset, *_) in (inner.fields or {}).items():
                names.append(field)
                formats.append(form)
                offsets.append(bits // 8 + offset)
        try:
            return np.dtype(
                {
                    "names": names,
                    "formats": formats,
                    "offsets": offsets,
                    "itemsize": entry.size_or_type,
                }
            )
        except (ValueError, TypeError) as error:
            raise FormatError(f"BTF struct {entry.name} is inconsistent: {error}") from error


def _signed(entry: BtfType) -> bool:
    # Whether an enum has negative constants; compilers before LLVM 16 do not say.
    if entry.kind == ENUM and not entry.flag:
        return any(value < 0 for _, value in entry.rows("=Ii"))
    return entry.flag


def _number(letter: str, entry: BtfType) -> DType:
    size = entry.size_or_type
    if letter == "b" and size == 1:
        return np.dtype(np.bool_)
    if letter in "iu" and size == 16:
        return np.dtype((np.uint64, (2,)))
    if size not in ({4, 8} if letter == "f" else {1, 2, 4, 8}):
        raise FormatError(f"BTF number {entry.name} has {size} bytes")
    return np.dtype(f"{'u' if letter == 'b' else letter}{size}")
