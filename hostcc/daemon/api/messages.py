"""Requests and replies of the control socket: typed, bounded, versioned (docs/control.md).

One JSON object in one line each way.  A request names its `op`; unknown keys, types
and ranges are refused, so that a typing error never becomes a silent default.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from hostcc.config.sections.words import Bytes, Flop, JobName, Weight
from hostcc.errors import InputError
from hostcc.foreign import encoded
from hostcc.limits import MAX_JOBS
from hostcc.mltcp.params import Mode
from hostcc.system.validate import UNDECODABLE, convert

PROTOCOL = 1
MAX_REQUEST_BYTES = 64 * 1024
MAX_RESPONSE_BYTES = 32 * 1024 * 1024
FLOWS_LIMIT = 50_000
LINKS_LIMIT = 5_000
CHANGES_LIMIT = 10_000
MAX_TOGETHER_S = 120.0


class _Request(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="op"):
    v: Literal[1] = 1


class Status(_Request, frozen=True, tag="status"):
    """Figures of the agent and of every job."""


class Jobs(_Request, frozen=True, tag="jobs"):
    """Parameters and processes of every job."""

    detail: bool = False
    """Also their profiles."""


class Profile(_Request, frozen=True, tag="profile"):
    """The profile of one job."""

    job: JobName
    series: bool = False
    """Also the bytes over time that it comes from."""


class Peers(_Request, frozen=True, tag="peers"):
    """The other members of the gossip."""


class Plan(_Request, frozen=True, tag="plan"):
    """The plan that holds, and the state of agreement."""

    explain: JobName | None = None
    """Also the reasons for this job's rank, level and path."""


class Links(_Request, frozen=True, tag="links"):
    """The links of the plan that holds, and who shares them."""

    job: JobName | None = None
    every: bool = False
    """Also links that one job has to itself."""
    limit: Annotated[int, Meta(ge=1, le=LINKS_LIMIT)] = 1000


class History(_Request, frozen=True, tag="history"):
    """What jobs of this host did in the last hour."""

    job: JobName | None = None
    fine: bool = False
    """Steps of a second, of the last two minutes; else of ten."""
    points: Annotated[int, Meta(ge=1, le=360)] = 360
    """Steps, the latest ones."""
    limit: Annotated[int, Meta(ge=1, le=MAX_JOBS)] = 256
    """Jobs."""


class View(_Request, frozen=True, tag="view"):
    """The view of the cluster."""


class Flows(_Request, frozen=True, tag="flows"):
    """The jobs' connections."""

    job: JobName | None = None
    limit: Annotated[int, Meta(ge=1, le=FLOWS_LIMIT)] = 10_000


class Changes(_Request, frozen=True, tag="changes"):
    """The changes in force and the latest entries of the journal."""

    limit: Annotated[int, Meta(ge=1, le=CHANGES_LIMIT)] = 200


class Verify(_Request, frozen=True, tag="verify"):
    """Compare the host with the journal."""


class Register(_Request, frozen=True, tag="register"):
    """`hostcc run`: a job starts here; the answer names its cgroup."""

    job: JobName
    weight: Weight | None = None
    bytes_per_iteration: Bytes | None = None
    flops: Flop | None = None
    join: bool = False
    """Also move the asking process into the cgroup, which it may not be able to see."""


class ChangeJob(_Request, frozen=True, tag="job"):
    """`hostcc job`: other parameters for a job that runs."""

    job: JobName
    weight: Weight | None = None
    bytes_per_iteration: Bytes | None = None
    flops: Flop | None = None


class Unfair(_Request, frozen=True, tag="unfair"):
    """How jobs share from now on."""

    mode: Mode
    weights: Annotated[dict[JobName, Weight], Meta(max_length=MAX_JOBS - 1)] = {}
    hold: bool = False
    """With mode off: also after restarts and boots, until the next `unfair`."""


class Shifts(_Request, frozen=True, tag="shifts"):
    """Whether jobs that share a link send one after the other."""

    enabled: bool


class Borrow(_Request, frozen=True, tag="borrow"):
    """`hostcc compare`: share in another way for now; lasts while it is asked for again."""

    mode: Mode | None = None
    """None: as before."""
    alike: bool = False
    """With mode static: every job weighs the same."""
    together_s: Annotated[float, Meta(ge=0, le=MAX_TOGETHER_S)] = 0.0
    """Hold the next burst of every job, so that all begin together after so many seconds."""


class Rollback(_Request, frozen=True, tag="rollback"):
    """Undo everything and only observe until the next `unfair`."""

    hold: bool = False
    """Also after restarts and boots."""


Asking = Status | Jobs | Profile | Peers | Plan | Links | History | View | Flows | Changes | Verify
Request = Asking | Register | ChangeJob | Unfair | Shifts | Borrow | Rollback
CHANGING = (Register, ChangeJob, Unfair, Shifts, Borrow, Rollback)
"""Requests that change something."""
OF_OWNERS = (Register, ChangeJob)
"""Those that users may make of jobs of their own, within the bounds of `[users]`."""


def decode(line: bytes) -> Request:
    """One request.  Raises InputError."""
    try:
        data = msgspec.json.decode(line)
    except UNDECODABLE as error:
        raise InputError(f"request: expected one line of JSON: {error}") from None
    if not isinstance(data, dict) or not isinstance(data.get("op"), str):
        raise InputError('request: expected an object with an "op"')
    if data["op"] not in OPERATIONS:
        known = ", ".join(OPERATIONS)
        raise InputError(f'request: op: expected one of {known}, got "{data["op"][:40]}"')
    request = convert(data, OPERATIONS[data["op"]], "request")
    if isinstance(request, Unfair) and request.weights and request.mode is not Mode.STATIC:
        raise InputError(f'request: weights: expected none with mode "{request.mode}"')
    if isinstance(request, Unfair) and request.hold and request.mode is not Mode.OFF:
        raise InputError(f'request: hold: expected false with mode "{request.mode}"')
    return request


OPERATIONS: dict[str, type[Request]] = {
    "status": Status,
    "jobs": Jobs,
    "profile": Profile,
    "flows": Flows,
    "peers": Peers,
    "plan": Plan,
    "links": Links,
    "history": History,
    "view": View,
    "changes": Changes,
    "verify": Verify,
    "register": Register,
    "job": ChangeJob,
    "unfair": Unfair,
    "shifts": Shifts,
    "borrow": Borrow,
    "rollback": Rollback,
}


def success(result: Any) -> bytes:
    """The answer to a request that was carried out."""
    line = encoded({"v": PROTOCOL, "ok": True, "result": result})
    if len(line) >= MAX_RESPONSE_BYTES:
        return failure("too-large", "the answer is too large: ask with a lower limit")
    return line + b"\n"


def failure(code: str, message: str) -> bytes:
    """The answer to any other request; `code` is for programs, `message` for people."""
    error = {"code": code, "message": message}
    return encoded({"v": PROTOCOL, "ok": False, "error": error}) + b"\n"
