"""docs/answers.md is what the declarations say, and they say something of every field."""

from __future__ import annotations

import pytest
from msgspec import Struct

from hostcc.answers import parts
from hostcc.answers.fields import label_of, metrics_of
from hostcc.answers.status import JobStatus
from tools import answers_page

pytestmark = pytest.mark.unit


def every_struct() -> set[type]:
    seen = set[type]()
    for forms in (*answers_page.ANSWERS.values(), tuple(parts.PARTS.values())):
        for form in forms:
            list(answers_page._described(form, seen))
    return seen


def test_the_page_is_what_the_code_says() -> None:
    assert answers_page.PAGE.read_text() == answers_page.page(), "python -m tools.answers_page"


def test_every_field_is_described() -> None:
    found = every_struct()
    assert len(found) > 40
    for kind in found:
        assert kind.__doc__
        missing = set(answers_page.field_names(kind).values()) - answers_page.docs(kind).keys()
        assert not missing, kind


def test_every_metric_has_one_field() -> None:
    names = [
        metric.name
        for kind in every_struct()
        for field, metric in metrics_of(kind).items()
        if field in vars(kind).get("__annotations__", {})
    ]
    assert len(names) == len(set(names)) > 20
    assert label_of(JobStatus) == ("name", "training_job")
    with pytest.raises(LookupError):
        label_of(parts.Part)


def test_words_of_types() -> None:
    class Inner(Struct):
        """Nothing."""

    assert answers_page._type(dict[str, int] | None) == "text to integer or null"
    assert answers_page._type(tuple[tuple[str, float], ...]) == "list of [text, number]"
    assert answers_page._type(list[Inner]) == "list of [Inner](#inner)"
    assert answers_page.heading(JobStatus) == "Job status"
