"""How much of what a host has little of one user may hold.  Pure.

Job slots, processes that send marks, and processes that are registered at one look: each has a
bound for one user, and a part that only root gets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from hostcc.limits import MAX_JOBS

T = TypeVar("T")
Owner = int | None
"""The uid in whose quota something counts; None: root asked for it, by command or configuration."""
PER_UID, FOR_ROOT = 64, 128


@dataclass(frozen=True)
class Quota:
    """Of one thing."""

    total: int = MAX_JOBS - 1
    """So many there are."""
    per_uid: int = PER_UID
    """One user has so many at most; root as far as nobody asked for it, like anybody else."""
    for_root: int = FOR_ROOT
    """So many are left for what root asks for, whatever the others have together."""

    def refusal(self, owner: Owner, held: Mapping[Owner, int]) -> str:
        """Why there is none left for `owner`, in words; empty: there is.  `held`: what each has."""
        used = sum(held.values())
        if used >= self.total:
            return f"all {self.total} are in use"
        if owner is None:
            return ""
        if held.get(owner, 0) >= self.per_uid:
            return f"uid {owner} has {self.per_uid}, the most for one user (agent.per_uid)"
        if used - held.get(None, 0) >= self.total - self.for_root:
            return f"the last {self.for_root} are for root (agent.for_root)"
        return ""


@dataclass(frozen=True)
class Refused:
    """Claims of one user that there was nothing left for."""

    uid: int
    claims: int
    why: str


@dataclass(frozen=True)
class Admission(Generic[T]):
    """Who gets something, and who does not."""

    admitted: tuple[T, ...] = ()
    refused: tuple[Refused, ...] = ()
    """By user, most claims first."""


def in_turns(claims: Iterable[tuple[T, Owner]]) -> list[tuple[T, Owner]]:
    """Root's first, then one of each user in turn, so that no crowd is waited for; of one user in
    the order given."""
    queues: dict[Owner, list[tuple[T, Owner]]] = {}
    for claim in claims:
        queues.setdefault(claim[1], []).append(claim)
    found = queues.pop(None, [])
    waiting = [queues[owner] for owner in sorted(queues, key=lambda owner: owner or 0)]
    at = 0
    while waiting := [queue for queue in waiting if len(queue) > at]:
        found += [queue[at] for queue in waiting]
        at += 1
    return found


def admit(
    claims: Iterable[tuple[T, Owner]], held: Mapping[Owner, int], quota: Quota
) -> Admission[T]:
    """Give what is left, in turns, to whom the quota lets have it.

    `claims`: of one user those first that are to be served first; `held`: what each has already.
    """
    has, admitted = Counter(held), list[T]()
    claimed, why = Counter[int](), dict[int, str]()
    for claim, owner in in_turns(claims):
        refusal = quota.refusal(owner, has)
        if not refusal:
            has[owner] += 1
            admitted.append(claim)
        else:
            uid = 0 if owner is None else owner
            claimed[uid] += 1
            why.setdefault(uid, refusal)
    refused = tuple(Refused(uid, count, why[uid]) for uid, count in claimed.most_common())
    return Admission(tuple(admitted), refused)
