"""Writes docs/metrics.md out of what the code declares: `python -m tools.metrics_page`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from prometheus_client import ProcessCollector

import hostcc.answers
from hostcc.answers.derived_metrics import DERIVED
from hostcc.answers.fields import JOB_LABEL, Counter, label_of, metrics_of
from hostcc.answers.jobs import ProfileFigures

PAGE = Path(__file__).parent.parent / "docs" / "metrics.md"
HEAD = """\
# Metrics

<!-- Written by `python -m tools.metrics_page`; declared in hostcc/answers. -->

Every metric that an agent exports with `agent.metrics_listen`, for Prometheus. Read this page when
you write a query, a panel or an alert. How to scrape agents: [monitoring.md](monitoring.md); access
and health: [control.md](control.md#metrics-and-health).

Labels are jobs, links, members' states and the like, never flows. What is not known has no sample:
parts that are off, and figures that were not measured yet, are absent. `training_job` is the name
of a job, because `job` is Prometheus' own label.

| metric | type | labels | meaning |
|---|---|---|---|
"""
ENDINGS = {"counter": "_total", "info": "_info"}


class Row(NamedTuple):
    """A metric as it is scraped."""

    name: str
    kind: str
    labels: tuple[str, ...]
    words: str

    def line(self) -> str:
        """In the table."""
        labels = " ".join(f"`{one}`" for one in self.labels)
        return f"| `{self.name}` | {self.kind} | {labels} | {self.words} |"


def rows() -> list[Row]:
    """All metrics by name."""
    found = {row.name: row for row in (*_of_fields(), *_of_several_fields(), *_of_the_process())}
    return [found[name] for name in sorted(found)]


def page() -> str:
    """The whole page."""
    return HEAD + "".join(f"{row.line()}\n" for row in rows())


def _of_fields() -> Iterator[Row]:
    for info in pkgutil.iter_modules(hostcc.answers.__path__):
        module = importlib.import_module(f"hostcc.answers.{info.name}")
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, Struct):
                labels = _labels(kind)
                for metric in metrics_of(kind).values():
                    name = "counter" if isinstance(metric, Counter) else "gauge"
                    yield Row(metric.name + ENDINGS.get(name, ""), name, labels, metric.help)


def _labels(kind: type[Struct]) -> tuple[str, ...]:
    if issubclass(ProfileFigures, kind):  # its rows are by job
        return (JOB_LABEL,)
    try:
        return (label_of(kind)[1],)
    except LookupError:
        return ()


def _of_several_fields() -> Iterator[Row]:
    for one in DERIVED:
        yield Row(one.name + ENDINGS.get(one.kind, ""), one.kind, one.labels, one.help)


def _of_the_process() -> Iterator[Row]:
    for one in ProcessCollector(registry=None).collect():
        name = one.name + ENDINGS.get(one.type, "")
        yield Row(name, one.type, (), one.documentation.rstrip("."))


if __name__ == "__main__":
    PAGE.write_text(page())
