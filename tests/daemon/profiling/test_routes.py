"""Which link each job's traffic takes: asked once of each network namespace."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path

import pytest

from hostcc.daemon.profiling.routes import MAX_DESTINATIONS, Question, Route, answers
from hostcc.measure import link_speeds
from hostcc.measure.destinations import Address

pytestmark = pytest.mark.unit

NEAR, FAR = ip_address("198.18.0.2"), ip_address("fd00::2")


class Kernel:
    """Every namespace has one link, which leads to what is not IPv6."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[Path | None, int]] = []
        self.broken: set[int] = set()
        """Calls that fail."""
        monkeypatch.setattr(
            link_speeds, "links", lambda _: [link_speeds.Link("eth0", 7, 10**9, False)]
        )
        monkeypatch.setattr(link_speeds, "carriers", self.carriers)

    def carriers(self, to: Iterable[Address], netns: Path | None) -> dict[Address, int | None]:
        wanted = list(to)
        self.asked.append((netns, len(wanted)))
        if len(self.asked) in self.broken:
            raise OSError("gone")
        return {one: 7 if one.version == 4 else None for one in wanted}


def test_jobs_of_one_namespace_are_asked_for_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel(monkeypatch)
    same, other = tmp_path / "same", tmp_path / "other"
    same.touch()
    other.touch()
    link = tmp_path / "again"
    link.hardlink_to(same)
    found = answers(
        [
            Question("a", same, (NEAR, FAR)),
            Question("b", link, (NEAR,)),
            Question("c", other, (FAR,)),
            Question("own", None, (NEAR,)),
            Question("gone", tmp_path / "gone", (NEAR,)),
        ]
    )
    way = Route("eth0", 10**9, False)
    assert found == {"a": {NEAR: way}, "b": {NEAR: way}, "c": {}, "own": {NEAR: way}}
    assert kernel.asked == [(same, 2), (other, 1), (None, 1)]


def test_one_that_goes_takes_none_of_the_others_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel(monkeypatch)
    kernel.broken = {1, 2}
    tmp_path.touch()
    found = answers([Question("a", tmp_path, (NEAR,)), Question("b", tmp_path, (NEAR,))])
    assert list(found) == ["b"]


def test_of_many_destinations_some_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch)
    many = tuple(ip_address(f"198.18.1.{number}") for number in range(MAX_DESTINATIONS + 9))
    assert len(answers([Question("a", None, many)])["a"]) == MAX_DESTINATIONS
    assert kernel.asked == [(None, MAX_DESTINATIONS)]
