"""Removing jobs' cgroups: their processes go back to where they came from first."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

from hostcc.daemon.changes import kinds
from hostcc.daemon.changes.journal import Journal
from hostcc.daemon.jobs import exiting
from hostcc.system.cgroups import CgroupTree


class GroupRemoval:
    """Removes groups, and has the journal say so.  Methods return what could not be done, in words.

    `remove` each group, and where some are then `ending`: `wait`, and `finish`.
    """

    def __init__(self, tree: CgroupTree, journal: Journal) -> None:
        self._tree, self._journal = tree, journal
        self.ending: dict[Path, list[str]] = {}
        """Groups whose processes only have to end -> ids of the changes that end with each."""

    def remove(
        self, job: str, group: Path, how: str, *, stays: bool = False
    ) -> Generator[None, None, list[str]]:
        """Move a job's processes out, one at each step, and remove its group.

        `stays`: the group stays, empty, for the next agent.
        """
        active = self._journal.active
        stuck: list[int] = []
        if self._tree.populated(group):
            origins = kinds.origins(active.values(), job)
            stuck = yield from self._tree.moving_out(group, origins)
        if stays and not stuck:
            self._journal.undone([one.id for one in kinds.members(active.values(), job)], how)
            return []
        if self._tree.remove(group):
            self._journal.undone(kinds.of_group(active.values(), job), how)
            return []
        if not self._tree.living(self._tree.pids(group)):
            self.ending[group] = kinds.of_group(active.values(), job)
            return []
        return [f"{group}: processes {stuck or 'of others'} are still in it, left in place"]

    def wait(self) -> None:
        """Give processes time to end; changes nothing."""
        exiting.wait(self._tree, self.ending)

    def finish(self, how: str) -> list[str]:
        """Remove the groups whose processes have ended by now."""
        groups, self.ending = self.ending, {}
        problems = []
        for group, ids in groups.items():
            if self._tree.remove(group):
                self._journal.undone(ids, how)
            else:
                problems.append(f"{group}: processes that cannot be moved are still in it")
        return problems

    def remove_base(self, how: str) -> list[str]:
        """Remove the directory of the groups, unless a job's stays."""
        base = self._tree.base
        if any(change.what == kinds.GROUP for change in self._journal.active.values()):
            return []
        if self._tree.exists(base) and not self._tree.remove(base):
            return [f"{base}: somebody else uses it, left in place"]
        self._journal.undone([kinds.BASE], how)
        return []
