"""Fresh records: so many times each, and none that no longer counts."""

from __future__ import annotations

import pytest

from hostcc.coord.core.payloads import Links
from hostcc.coord.core.rumors import SWEEP_MARGIN_RECORDS, Rumors
from hostcc.coord.core.settings import Settings
from hostcc.coord.core.store import Store
from tests.coord.records import held, member, record

pytestmark = pytest.mark.unit


def rumors(**changes: int) -> tuple[Store, Rumors]:
    settings = Settings(**changes)
    store = Store(settings)
    return store, Rumors(store, settings)


def test_a_record_is_told_to_a_few_then_named_to_more() -> None:
    store, told = rumors(eager=2)
    one = held(member("a"))
    store.put(one, 0.0)
    told.add(one)
    assert [len(list(told.records(1e6, 10))) for _ in range(4)] == [1, 1, 0, 0]
    named = [len(list(told.announcements(512))) for _ in range(20)]
    assert sum(named) == Settings().announcements(10)
    assert len(told) == 0


def test_what_does_not_fit_waits() -> None:
    store, told = rumors()
    one = held(member("a"))
    store.put(one, 0.0)
    told.add(one)
    assert not list(told.records(one.size - 1, 10))
    assert list(told.records(one.size, 10)) == [one]


def test_what_is_held_no_more_is_swept_out() -> None:
    _, told = rumors()
    for number in range(3 * SWEEP_MARGIN_RECORDS):
        told.add(held(record(f"h{number}", "links", "", Links(()))))
        assert len(told) <= told.most == SWEEP_MARGIN_RECORDS
