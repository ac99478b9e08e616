"""Jobs that share links, found again after each change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.coord import job_coupling
from hostcc.coord.job_coupling import JobCoupling
from hostcc.coord.live_records import Ends
from hostcc.model import Flow, SizeClass

pytestmark = pytest.mark.unit
JOBS, PAIRS = "abcdef", [("h0", "h1"), ("h1", "h2"), ("h2", "h0"), ("h3", "h4")]


class World:
    """Flows of jobs and links of tables, and who is coupled by trying every pair."""

    def __init__(self) -> None:
        self.flows: dict[str, tuple[Flow, ...]] = {}
        self.tables: dict[Ends, list[str]] = {}
        self.coupling = JobCoupling(self.flows.__getitem__, lambda pair: self.tables.get(pair, []))

    def send(self, job: str, pairs: list[Ends], *, long: bool = True) -> None:
        """The job has flows between these pairs; none: it has ended."""
        size = SizeClass.ELEPHANT if long else SizeClass.MOUSE
        if pairs:
            self.flows[job] = tuple(
                Flow(f"{src}/{index}", job, src, dst, 1e9, size)
                for index, (src, dst) in enumerate(pairs)
            )
        else:
            self.flows.pop(job, None)
        self.coupling.flows_changed(job)

    def route(self, pair: Ends, links: list[str]) -> None:
        self.tables[pair] = links
        self.coupling.table_changed(pair)

    def found(self, *own: str) -> set[str]:
        links = set[str]().union(*self.tables.values())
        return self.coupling.of(own, self.flows, len(links))

    def expected(self, own: str) -> set[str]:
        over = {
            job: {
                link
                for flow in flows
                if flow.size is SizeClass.ELEPHANT
                for link in self.tables.get((flow.src, flow.dst), [])
            }
            for job, flows in self.flows.items()
        }
        found = {own}
        while more := {
            job for job in over.keys() - found if any(over[job] & over[one] for one in found)
        }:
            found |= more
        return found


CHANGES = st.one_of(
    st.tuples(
        st.sampled_from(JOBS),
        st.lists(st.sampled_from(PAIRS), max_size=3, unique=True),
        st.booleans(),
    ),
    st.tuples(
        st.sampled_from(PAIRS),
        st.lists(st.sampled_from("stuvw"), max_size=3, unique=True),
        st.none(),
    ),
)


@given(st.lists(CHANGES, max_size=25))
def test_after_each_change_it_is_as_by_trying_every_pair(
    changes: list[tuple[str | Ends, list[Ends] | list[str], bool | None]],
) -> None:
    world = World()
    for what, those, long in changes:
        if isinstance(what, str):
            world.send(what, those, long=bool(long))  # type: ignore[arg-type]
        else:
            world.route(what, those)  # type: ignore[arg-type]
        for job in world.flows:
            assert world.found(job) == world.expected(job)


def test_links_that_are_gone_do_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_coupling, "_SPARE_LINKS", 10)
    world = World()
    for number in range(50):
        world.route(PAIRS[0], [f"link {number}", "all"])
        world.route(PAIRS[1], ["all"])
        world.send("a", [PAIRS[0]])
        world.send("b", [PAIRS[1]])
        assert world.found("a") == {"a", "b"}
        assert len(world.coupling._numbers) <= 13


def test_jobs_that_the_view_does_not_have_yet_are_among_the_answer() -> None:
    assert World().found("new") == {"new"}
