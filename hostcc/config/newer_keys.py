"""Keys of newer versions: what a downgrade finds in the configuration and does not know.

Each version writes the keys that it knows when its agent starts.  An older one then ignores, and
names, those of a newer version that has run on this host.  Every other unknown key is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, inspect

from hostcc.config.schema import Config
from hostcc.errors import InputError
from hostcc.system import ownership, whole_file

NAME = "configuration-keys.json"
MAX_BYTES, MAX_VERSIONS = 1 << 18, 8
Key = Annotated[str, Meta(pattern=r"^[a-z0-9_.]{1,128}\Z")]
Number = Annotated[str, Meta(pattern=r"^[0-9]{1,6}(\.[0-9]{1,6}){0,3}\Z")]


class _Content(Struct, frozen=True, forbid_unknown_fields=True):
    schema: Literal["hostcc.configuration-keys/1"]
    versions: Annotated[dict[Number, list[Key]], Meta(max_length=MAX_VERSIONS)]


def known() -> frozenset[str]:
    """Every key of this version, sections too: `agent`, `agent.run_dir`, `job.name`."""
    return frozenset(_below(inspect.type_info(Config), ""))


def newer(folder: Path, version: str) -> frozenset[str]:
    """Keys that newer versions knew on this host.  None where the file cannot be believed."""
    found, mine = _read(folder / NAME), _order(version)
    late = [keys for number, keys in found.items() if mine and _order(number) > mine]
    return frozenset(key for keys in late for key in keys)


def remember(folder: Path, version: str) -> None:
    """Write this version's keys for an older one.  Raises OSError, and InputError where others
    could write."""
    path = folder / NAME
    if not _order(version) or not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6}){0,3}", version):
        return
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    ownership.check_path(path)
    found = _read(path)
    now = {**found, version: sorted(known())}
    last = sorted(now, key=_order)[-MAX_VERSIONS:]
    if found != now:
        made = _Content("hostcc.configuration-keys/1", {number: now[number] for number in last})
        whole_file.replace(path, msgspec.json.encode(made))


def without(
    data: dict[str, Any], unknown: Collection[str], own: Collection[str]
) -> tuple[dict[str, Any], list[str]]:
    """Leave out keys that are in `unknown` and not in `own`; which ones."""
    ignored = dict[str, None]()
    kept: dict[str, Any] = _stripped(data, "", unknown, own, ignored)
    return kept, list(ignored)


def _stripped(
    value: Any, at: str, unknown: Collection[str], own: Collection[str], ignored: dict[str, None]
) -> Any:
    if isinstance(value, list):
        return [_stripped(one, at, unknown, own, ignored) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {}
    for key, below in value.items():
        path = f"{at}.{key}" if at else key
        if path in own or path not in unknown:
            kept[key] = _stripped(below, path, unknown, own, ignored)
        elif isinstance(below, dict) and below:  # a section of theirs
            if rest := _stripped(below, path, unknown, own, ignored):
                kept[key] = rest  # with a key that nobody knows
        else:
            ignored[path] = None
    return kept


def _read(path: Path) -> dict[str, list[str]]:
    try:
        ownership.check_path(path)
        raw = whole_file.read(path, MAX_BYTES)
        return {} if raw is None else msgspec.json.decode(raw, type=_Content).versions
    except (InputError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}


def _below(kind: inspect.Type, at: str) -> Iterator[str]:
    if isinstance(kind, inspect.VarTupleType):
        yield from _below(kind.item_type, at)
    if isinstance(kind, inspect.Metadata):
        yield from _below(kind.type, at)
    if isinstance(kind, inspect.StructType):
        for field in kind.fields:
            path = f"{at}.{field.encode_name}" if at else field.encode_name
            yield path
            yield from _below(field.type, path)


def _order(version: str) -> tuple[int, ...]:
    found = re.match(r"[0-9]{1,6}(\.[0-9]{1,6}){0,3}", version)
    return tuple(map(int, found[0].split("."))) if found else ()
