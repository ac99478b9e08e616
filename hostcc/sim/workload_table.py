"""Reads `workloads.toml`: what an iteration of each model computes and sends."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from hostcc.errors import InputError
from hostcc.system import toml_file

DEFAULT = Path(__file__).with_name("workloads.toml")
SOURCES = ("published: ", "derived from ", "assumed: ")
MOST_BYTES = 1 << 20
"""Of the file."""
MOST_VALUE = 1e18
"""Largest number of seconds, FLOP or bytes."""
NUMBERS = ("compute_s", "comm_start_s", "flop_per_gpu", "nic_bytes")
Pattern = Literal["ring", "all-to-all", "pipeline"]


class Size(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An iteration of a model on that many GPUs."""

    gpus: int
    compute_s: float
    comm_start_s: float
    """Seconds of the computation before the communication."""
    flop_per_gpu: float
    nic_bytes: float
    """Bytes that each NIC sends in an iteration."""
    source: dict[str, str]
    """Where each number is from."""
    rate: float = math.inf
    """Most that a flow sends, bytes/s."""


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model; its sizes rise by GPUs."""

    pattern: Pattern
    sizes: list[Size]

    def size(self, gpus: int) -> Size:
        """Return the largest size that a job of so many GPUs reaches, or the first."""
        return next((one for one in reversed(self.sizes) if one.gpus <= gpus), self.sizes[0])


class Names(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names in traces, in lower case -> models."""

    default: str
    models: dict[str, str]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    models: dict[str, Model]
    names: Names


@dataclass(frozen=True)
class Workloads:
    """A workload table."""

    models: dict[str, Model]
    names: Names
    digest: str
    """SHA-256 of the file's values, in hexadecimal."""

    def model_of(self, name: str) -> str:
        """Return the model of a name in a trace."""
        return self.names.models.get(name.lower(), self.names.default)


def read(path: Path = DEFAULT) -> Workloads:
    """Return the table of a file. Raises InputError with file and key."""
    found = toml_file.read(path, _File, MOST_BYTES)
    for name, model in found.models.items():
        _check(f"{path}: models.{name:.40}", model)
    for name, model_name in [("default", found.names.default), *found.names.models.items()]:
        if model_name not in found.models:
            raise InputError(f"{path}: names.{name:.40}: expected a model of this file")
        if name != name.lower():
            raise InputError(f"{path}: names.{name:.40}: expected lower case")
    encoded = msgspec.json.encode(found, order="deterministic")
    return Workloads(found.models, found.names, hashlib.sha256(encoded).hexdigest())


def _check(where: str, model: Model) -> None:
    gpus = [size.gpus for size in model.sizes]
    if not gpus or gpus[0] < 1 or gpus != sorted(set(gpus)):
        raise InputError(f"{where}.sizes: expected rows with rising gpus from 1")
    for row, size in enumerate(model.sizes):
        place = f"{where}.sizes[{row}]"
        for name in NUMBERS:
            value: Any = getattr(size, name)
            least = name == "comm_start_s"
            if not (value >= 0 if least else value > 0) or value > MOST_VALUE:
                bound = "0" if least else "more than 0"
                raise InputError(f"{place}.{name}: expected {bound} to {MOST_VALUE:g}, got {value}")
            if not size.source.get(name, "").startswith(SOURCES):
                raise InputError(f"{place}.source.{name}: expected text like {SOURCES[2]!r} ...")
        if size.comm_start_s > size.compute_s:
            raise InputError(f"{place}.comm_start_s: expected at most compute_s")
        if not size.rate > 0:
            raise InputError(f"{place}.rate: expected more than 0 bytes/s, got {size.rate}")
