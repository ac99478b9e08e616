"""Whose a job is, and what a user may ask for it.  Pure.

A user's jobs are called `uidN:NAME`, on every host: so nobody takes another one's name, neither
here nor in the gossip.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator

from hostcc.config.sections.job import JobRequest
from hostcc.config.sections.users import UsersConfig
from hostcc.errors import DeniedError, InputError, NoJobError
from hostcc.limits import FLOP_MAX, WEIGHT_MAX, WEIGHT_MIN, is_job_name
from hostcc.system.processes import FLOPS, WEIGHT, Kind, Said
from hostcc.system.quota import Owner

MAX_NAME = 64
_OF_USER = re.compile(r"uid(0|[1-9][0-9]{0,9}):.")


def user_in(name: str) -> int | None:
    """The user whose name for a job this is; None: nobody's."""
    found = _OF_USER.match(name)
    return int(found[1]) if found else None


def full_name(name: str, uid: int) -> str:
    """What a user's job is called.  Raises DeniedError for a name of another user."""
    owner = user_in(name)
    if uid in (0, owner):
        return name
    if owner is not None:
        raise DeniedError(f"job {name} is of uid {owner}")
    whole = f"uid{uid}:{name}"
    if not is_job_name(whole):
        most = MAX_NAME - len(f"uid{uid}:")
        raise InputError(f"request: job: expected at most {most} characters for uid {uid}")
    return whole


def owner_of(name: str, quota_of: Owner) -> Owner:
    """Whose a job is; None: root's.  `quota_of`: in whose quota it counts."""
    owner = user_in(name)
    return quota_of if owner is None else owner


def named(name: str, uid: int, jobs: Collection[str]) -> str:
    """The job that a user means: one of their own first.  Raises NoJobError for none."""
    own = f"uid{uid}:{name}"
    for one in (name, own) if uid == 0 else (own, name):
        if one in jobs and (uid == 0 or user_in(one) in (None, uid)):
            return one
    raise NoJobError(f"no job {name} on this host")


def check_owner(name: str, owner: Owner, uid: int) -> None:
    """Raise DeniedError unless a user may change a job."""
    if uid not in (0, owner):
        whose = "root's" if owner is None else f"of uid {owner}"
        raise DeniedError(f"job {name} is {whose}")


def check_request(asked: JobRequest, users: UsersConfig, uid: int) -> None:
    """Raise DeniedError for what the administrator lets no user ask for."""
    if uid == 0:
        return
    if not users.enabled:
        raise DeniedError("jobs of users need users.enabled = true: this needs root")
    if asked.weight is not None and asked.weight > users.max_weight:
        raise DeniedError(
            f"weight: expected at most {users.max_weight:g} (users.max_weight), "
            f"got {asked.weight:g}"
        )
    for key in ("flops", "bytes_per_iteration"):
        if getattr(asked, key) is not None and not users.declare:
            raise DeniedError(f"{key}: users may declare none (users.declare)")


def check_earlier(name: str, earlier: JobRequest, uid: int) -> None:
    """Raise DeniedError when root has set what a user would change."""
    if uid != 0 and earlier.by_root:
        raise DeniedError(f"job {name}: root has set its parameters")


def refused(users: UsersConfig, owner: Owner) -> dict[str, str]:
    """What a job does not get, and why: `rdma`, `marks`."""
    if owner is None:
        return {}
    allowed = {"rdma": users.rdma, "marks": users.marks}
    return {what: f"users.{what} is false" for what, is_so in allowed.items() if not is_so}


def declared(said: Collection[Said], kind: Kind, users: UsersConfig) -> tuple[JobRequest, str]:
    """What the environment of a found job asks for, within bounds; what is wrong with it.

    Root's processes are bound by nothing but the values' own range, except in pods, where anybody
    may be called root.
    """
    found: dict[str, float] = {}
    problems = list[str]()
    for one in said:
        bound = one.uid != 0 or kind is Kind.KUBERNETES
        for value in _value(one, users, problems, bound=bound):
            found.setdefault(one.variable, value)
    return JobRequest(weight=found.get(WEIGHT), flops=found.get(FLOPS)), "; ".join(problems)


def _value(one: Said, users: UsersConfig, problems: list[str], *, bound: bool) -> Iterator[float]:
    low, high = (WEIGHT_MIN, WEIGHT_MAX) if one.variable == WEIGHT else (1.0, FLOP_MAX)
    try:
        value = float(one.text)
    except ValueError:
        value = math.nan
    whose = f"{one.variable} of process {one.pid}"
    if not low <= value <= high:
        problems.append(f'{whose}: expected a number from {low:g} to {high:g}, got "{one.text}"')
    elif bound and not users.enabled:
        problems.append(f"{whose}: users.enabled is false")
    elif bound and one.variable == FLOPS and not users.declare:
        problems.append(f"{whose}: users may declare none (users.declare)")
    elif bound and one.variable == WEIGHT and value > users.max_weight:
        problems.append(f"{whose}: {value:g} is more than users.max_weight, {users.max_weight:g}")
        yield users.max_weight
    else:
        yield value
