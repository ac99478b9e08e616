"""Moving processes back into the cgroups of jobs that an earlier agent let go of."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from pathlib import Path

from hostcc.log import get_logger
from hostcc.model import Change
from hostcc.system.cgroups import CgroupTree

log = get_logger("jobs")


class ProcessReturns:
    """The processes that are to go back, of all jobs; to move one takes a millisecond or more."""

    def __init__(self, tree: CgroupTree) -> None:
        self._tree = tree
        self._waiting: dict[str, list[int]] = {}

    def expect(self, back: Iterable[Change]) -> None:
        """Add processes that are to go back: the `job-member` change of each, journalled."""
        for one in back:
            self._waiting.setdefault(Path(str(one.after)).name, []).append(int(one.target))

    @property
    def pending(self) -> bool:
        """Whether processes have still to go back; until then they look like no job's."""
        return bool(self._waiting)

    def of(self, job: str) -> list[int]:
        """Processes of one job that have still to go back."""
        return list(self._waiting.get(job, ()))

    def give_up(self, job: str) -> None:
        """Leave the processes of one job where they are."""
        self._waiting.pop(job, None)

    def steps(self) -> Generator[None, None, None]:
        """Move all of them, one at each step."""
        for job in list(self._waiting):
            group, count, stuck = self._tree.path(job), len(self._waiting[job]), 0
            while waiting := self._waiting.get(job):
                stuck += not self._tree.enter(group, waiting[0])
                del waiting[0]
                yield
            if job in self._waiting:
                del self._waiting[job]
                log.info("put processes back", job=job, processes=count, failed=stuck)
