"""Converts untyped data to typed data, or says in one line what was expected.

`convert` is msgspec's, with errors rewritten for people: `WHERE: key.path:
expected X, got Y`.  X is worked out from the type and its bounds, so it names
the whole range and not only the bound that was broken.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from hostcc.errors import InputError

T = TypeVar("T")

UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are no document: text that is no UTF-8 has no error of its own
there, and neither has what is nested too deep."""

_AT = re.compile(r"^(?P<what>.*?)(?: - at `(?P<key>key` in `)?\$(?P<path>[^`]*)`)?$", re.DOTALL)
_FIELD = re.compile(r"field `(?P<name>.*)`", re.DOTALL)
_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\[(\d+)\]|\[\.\.\.\]")


def convert(data: object, kind: type[T], where: str) -> T:
    """Convert `data` to `kind`.

    Raises InputError, one line that starts with `where`.  NaN and infinity are
    refused everywhere: no bound of ours would hold for them.
    """
    for path, value in _floats(data, ""):
        if not math.isfinite(value):
            raise refusal(where, path, "a finite number", value)
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise _explain(error, data, kind, where) from None
    except RecursionError:
        raise InputError(f"{where}: expected less deeply nested data") from None


def refusal(where: str, path: str, expected: str, got: object) -> InputError:
    """Make the error for one wrong value."""
    key = f"{path}: " if path else ""
    return InputError(f"{where}: {key}expected {expected}, got {_shown(got)}")


def _explain(error: Exception, data: object, kind: Any, where: str) -> InputError:
    match = _AT.match(str(error))
    what = match["what"] if match else str(error)
    path = (match["path"] or "") if match else ""
    at, steps, value = inspect.type_info(kind), _steps(path), data
    for step in steps:
        at, value = _child_type(at, value, step), _child_value(value, step)
    dotted = path.lstrip(".")
    field = _FIELD.search(what)
    if field is not None and "unknown field" in what:
        return _unknown_key(where, dotted, field["name"], at, value)
    if field is not None and "missing required field" in what:
        return InputError(f"{where}: {_join(dotted, field['name'])}: expected a value, got none")
    return refusal(where, dotted, describe(at), value)


def _unknown_key(where: str, path: str, name: str, at: Any, value: object) -> InputError:
    known = sorted(_fields(at, value))
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return InputError(
        f"{where}: {_join(path, name[:64])}: expected one of the keys {', '.join(known)}, "
        f"got an unknown key{hint}"
    )


def _fields(at: Any, value: object) -> Iterable[str]:
    for kind in _members(at):
        if isinstance(kind, inspect.StructType):
            if not _tag_fits(kind, value):
                continue
            if kind.tag_field is not None:
                yield kind.tag_field
            yield from (field.encode_name for field in kind.fields)


def _tag_fits(kind: inspect.StructType, value: object) -> bool:
    # Whether `value` is meant to be this member of a tagged union.
    if kind.tag_field is None or not isinstance(value, Mapping):
        return True
    return bool(value.get(kind.tag_field) == kind.tag)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _steps(path: str) -> list[str | int]:
    return [
        int(m[2]) if m[2] is not None else (m[1] if m[1] is not None else "...")
        for m in _STEP.finditer(path)
    ]


def _child_value(value: object, step: str | int) -> object:
    if isinstance(step, int) and isinstance(value, list | tuple) and step < len(value):
        return value[step]
    if isinstance(step, str) and isinstance(value, Mapping):
        return value.get(step, value)
    return value


def _child_type(at: Any, value: object, step: str | int) -> Any:
    for kind in _members(at):
        if isinstance(kind, inspect.StructType) and isinstance(step, str):
            if not _tag_fits(kind, value):
                continue
            for field in kind.fields:
                if field.encode_name == step:
                    return field.type
        if isinstance(kind, inspect.VarTupleType | inspect.ListType) and isinstance(step, int):
            return kind.item_type
        if isinstance(kind, inspect.DictType) and step == "...":
            return kind.value_type
    return inspect.AnyType()


def _members(at: Any) -> list[Any]:
    if isinstance(at, inspect.Metadata):
        return _members(at.type)
    if isinstance(at, inspect.UnionType):
        return [m for t in at.types for m in _members(t)]
    return [at]


def describe(at: Any) -> str:
    """Describe a type in words, bounds included: "a number from 0.01 to 100"."""
    if isinstance(at, inspect.Metadata):
        words = (at.extra_json_schema or {}).get("description")
        return str(words) if words else describe(at.type)
    if isinstance(at, inspect.UnionType):
        return " or ".join(describe(t) for t in at.types if not isinstance(t, inspect.NoneType))
    for kind, words_of in _WORDS.items():
        if isinstance(at, kind):
            return words_of(at)
    return "something else"


_WORDS: dict[type, Callable[[Any], str]] = {
    inspect.FloatType: lambda at: "a number" + _range(at),
    inspect.IntType: lambda at: "a whole number" + _range(at),
    inspect.BoolType: lambda _: "true or false",
    inspect.StrType: lambda at: (
        f"text of at most {at.max_length} characters" if at.max_length else "text"
    ),
    inspect.EnumType: lambda at: _one_of(member.value for member in at.cls),
    inspect.LiteralType: lambda at: _one_of(at.values),
    inspect.VarTupleType: lambda at: f"a list{_length(at)} ({describe(at.item_type)} each)",
    inspect.ListType: lambda at: f"a list{_length(at)} ({describe(at.item_type)} each)",
    inspect.DictType: lambda at: f"a table{_length(at)} ({describe(at.value_type)} each)",
    inspect.StructType: lambda _: "a table",
}


def _one_of(values: Iterable[object]) -> str:
    return "one of " + ", ".join(f'"{value}"' for value in values)


def _length(at: Any) -> str:
    if at.max_length is None:
        return ""
    return f" of {at.min_length or 0} to {at.max_length}"


def _range(at: Any) -> str:
    if at.ge is not None and at.le is not None:
        return f" from {at.ge:.15g} to {at.le:.15g}"
    if at.ge is not None:
        return f" of at least {at.ge:.15g}"
    return ""


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 128:
        return "a huge number"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _floats(data: object, path: str) -> Iterable[tuple[str, float]]:
    # Every float in `data` with its path, without recursion (the depth is not ours to choose).
    stack: list[tuple[str, object]] = [(path, data)]
    while stack:
        at, value = stack.pop()
        if isinstance(value, float):
            yield at, value
        elif isinstance(value, Mapping):
            stack.extend((_join(at, str(k)[:64]), v) for k, v in value.items())
        elif isinstance(value, list | tuple):
            stack.extend((f"{at}[{i}]", v) for i, v in enumerate(value))
