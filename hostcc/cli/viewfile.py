"""A ClusterView from a file that somebody wrote: typed, bounded, refused in one line.

The keys are those of hostcc.model, so that an encoded ClusterView reads back as it was.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from hostcc.errors import InputError
from hostcc.limits import JOB_NAME, JOB_NAME_WORDS, VISIBLE
from hostcc.model import ClusterView, Flow, JobProfile, Path, PathTable, SizeClass
from hostcc.schedule.plan import Options
from hostcc.system import validate

MAX_BYTES = 256 << 20
JobName = Annotated[str, Meta(pattern=JOB_NAME, description=JOB_NAME_WORDS)]
Name = Annotated[
    str,
    Meta(pattern=rf"^{VISIBLE}{{1,256}}\Z", description="text of 1 to 256 visible characters"),
]
Text = Annotated[
    str,
    Meta(pattern=rf"^{VISIBLE}{{0,256}}\Z", description="text of at most 256 visible characters"),
]
NotNegative = Annotated[float, Meta(ge=0, le=1e30)]
Share = Annotated[float, Meta(ge=0, le=1)]
Port = Annotated[int, Meta(ge=0, le=65535)]


class _Given(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class JobGiven(_Given, frozen=True):
    """A JobProfile."""

    job: JobName
    compute_s: NotNegative
    comm_start_s: NotNegative
    work: NotNegative
    gpus: NotNegative
    host: Text = ""
    period_s: NotNegative = 0.0
    comm_s: NotNegative = 0.0
    bytes_to: Annotated[tuple[tuple[Name, NotNegative], ...], Meta(max_length=100_000)] = ()
    weight: Annotated[float, Meta(ge=1e-30, le=1e30)] = 1.0
    slowdown: NotNegative = 1.0
    phase_s: Annotated[float, Meta(ge=-1e30, le=1e30)] | None = None
    confidence: Share = 1.0
    at: NotNegative = 0.0
    assumed: Text = ""
    assumed_flop_per_s: NotNegative = 0.0
    recalled: bool = False


class FlowGiven(_Given, frozen=True):
    """A Flow."""

    id: Name
    job: JobName
    src: Name
    dst: Name
    bytes: NotNegative
    size: SizeClass = SizeClass.ELEPHANT
    protocol: Text = "tcp"
    src_port: Port = 0
    dst_port: Port = 0
    path: Text = ""


class PathGiven(_Given, frozen=True):
    """A Path."""

    id: Name
    links: Annotated[tuple[Name, ...], Meta(max_length=64)]
    ports: Annotated[tuple[Port, ...], Meta(max_length=65536)] = ()


class TableGiven(_Given, frozen=True):
    """A PathTable."""

    src: Name
    dst: Name
    paths: Annotated[tuple[PathGiven, ...], Meta(max_length=4096)]
    probed_at: NotNegative = 0.0


class OptionsGiven(_Given, frozen=True):
    """The options by which hosts plan the view, as in `[plan]`."""

    levels: Annotated[int, Meta(ge=1, le=4096)] | None = None
    reserved: Annotated[tuple[Annotated[int, Meta(ge=0, le=4095)], ...], Meta(max_length=4096)] = ()
    paths: Text | None = None
    order: Text | None = None
    compression: Text | None = None
    fairness: Annotated[float, Meta(ge=0, le=10)] | None = None
    most_loss: Share | None = None


class ViewGiven(_Given, frozen=True):
    """A ClusterView, and how it is planned."""

    jobs: Annotated[tuple[JobGiven, ...], Meta(max_length=100_000)] = ()
    flows: Annotated[tuple[FlowGiven, ...], Meta(max_length=1_000_000)] = ()
    tables: Annotated[tuple[TableGiven, ...], Meta(max_length=1_000_000)] = ()
    links: Annotated[tuple[tuple[Name, NotNegative], ...], Meta(max_length=1_000_000)] = ()
    members: Annotated[tuple[Name, ...], Meta(max_length=1_000_000)] = ()
    digest: Text = ""
    options: OptionsGiven = OptionsGiven()


def view_of(data: bytes, where: str) -> ClusterView:
    """The view in a file's bytes.  Raises InputError."""
    return model_of(given(data, where))


def given(data: bytes, where: str) -> ViewGiven:
    """What a file's bytes say, a view and its options.  Raises InputError."""
    return validate.convert(json_of(data, where), ViewGiven, where)


def json_of(data: bytes, where: str) -> object:
    """What a file's bytes are as JSON.  Raises InputError."""
    try:
        return msgspec.json.decode(data)
    except validate.UNDECODABLE as error:
        raise InputError(f"{where}: expected JSON: {error}") from None


def planned_by(given: OptionsGiven) -> Options:
    """The options of a view, with defaults for those that it does not have."""
    told = {key: value for key, value in _fields(given).items() if value is not None}
    if told.get("most_loss") == 1:  # as in [plan]
        told["most_loss"] = math.inf
    return Options(**told)


def model_of(given: ViewGiven) -> ClusterView:
    """The view as the scheduler has it."""
    return ClusterView(
        jobs=tuple(map(profile_of, given.jobs)),
        flows=tuple(Flow(**_fields(one)) for one in given.flows),
        tables=tuple(
            PathTable(
                one.src, one.dst, tuple(Path(**_fields(path)) for path in one.paths), one.probed_at
            )
            for one in given.tables
        ),
        links=given.links,
        members=given.members,
        digest=given.digest,
    )


def profile_of(given: JobGiven) -> JobProfile:
    """The job as the scheduler has it."""
    return JobProfile(**_fields(given))


def _fields(given: Struct) -> dict[str, Any]:
    return msgspec.structs.asdict(given)
