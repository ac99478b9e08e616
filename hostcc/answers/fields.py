"""What a field's type carries beside the type: its unit, and the metric that it is exported as."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

JOB_LABEL = "training_job"
"""A label `job` is Prometheus' own, of the target: it renames ours to `exported_job`."""


@dataclass(frozen=True)
class Unit:
    """Of a figure, as the page shows it."""

    name: str


@dataclass(frozen=True)
class Gauge:
    """The field is exported as a gauge."""

    name: str
    help: str


@dataclass(frozen=True)
class Counter:
    """The field is exported as a counter; Prometheus adds `_total` to the name."""

    name: str
    help: str


@dataclass(frozen=True)
class Label:
    """The field is the label by which the metrics of a row are told apart."""

    name: str


Metric = Gauge | Counter
Seconds = Annotated[float, Unit("s")]
Epoch = Annotated[float, Unit("s since the epoch")]
Microseconds = Annotated[int, Unit("us")]
Bytes = Annotated[int, Unit("bytes")]
MeanBytes = Annotated[float, Unit("bytes")]
Packets = Annotated[int, Unit("packets")]
BytesPerSecond = Annotated[float, Unit("bytes/s")]
BitsPerSecond = Annotated[float, Unit("bits/s")]
Flop = Annotated[float, Unit("FLOP")]
FlopPerSecond = Annotated[float, Unit("FLOP/s")]


@cache
def annotations_of(kind: type) -> dict[str, tuple[Any, ...]]:
    """Field -> what its type carries, also where it may be None."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: tuple(_carried(hint)) for name, hint in hints.items()}


def _carried(hint: Any) -> Iterator[Any]:
    """Of a type, and of what it is beside None; not of what a list or a dictionary contains."""
    yield from getattr(hint, "__metadata__", ())
    if get_origin(hint) in (Annotated, Union, UnionType):
        for part in get_args(hint):
            yield from _carried(part)


def metrics_of(kind: type) -> dict[str, Metric]:
    """Field -> metric, of the fields of an answer that are exported."""
    carried = annotations_of(kind)
    return {
        name: one for name, every in carried.items() for one in every if isinstance(one, Metric)
    }


def label_of(kind: type) -> tuple[str, str]:
    """(Field, label) that tells rows apart.  Raises LookupError where no field does."""
    for name, every in annotations_of(kind).items():
        for one in every:
            if isinstance(one, Label):
                return name, one.name
    raise LookupError(f"{kind.__name__} has no label")


def families_of_rows(core: Any, kind: type[Struct], rows: Iterable[Struct]) -> Iterator[Any]:
    """Metric families of rows, with a sample for every value that is known.

    `core`: the module prometheus_client.core.
    """
    key, label = label_of(kind)
    rows = list(rows)
    for name, metric in metrics_of(kind).items():
        made = family(core, metric, labels=[label])
        for row in rows:
            if (value := getattr(row, name)) is not None:
                made.add_metric([getattr(row, key)], value)
        yield made


def families(core: Any, of: Struct) -> Iterator[Any]:
    """Metric families of one answer, or of a block of one; none of what is not known."""
    for name, metric in metrics_of(type(of)).items():
        if (value := getattr(of, name)) is not None:
            yield family(core, metric, value=value)


def family(core: Any, metric: Metric, **more: Any) -> Any:
    """A metric family with labels, or with the one value that it has."""
    is_gauge = isinstance(metric, Gauge)
    make = core.GaugeMetricFamily if is_gauge else core.CounterMetricFamily
    return make(metric.name, metric.help, **more)
