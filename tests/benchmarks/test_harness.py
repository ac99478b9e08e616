"""Cases of a benchmark: taken from disk where they are, failures kept, wrong input refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import hostcc
from benchmarks.cases import Identity
from benchmarks.context import Context
from benchmarks.harness import Case, repeated, run_cases
from hostcc.errors import HostccError, InputError

pytestmark = pytest.mark.unit


class Figure(msgspec.Struct, frozen=True):
    value: int


def case(
    key: str, number: int, value: int = 0, error: Exception | None = None
) -> Case[str, Figure]:
    def measure() -> Figure:
        if error is not None:
            raise error
        return Figure(value)

    name = f"{key}-{number}"
    return Case(key, f"cases/{name}", f"{key}, run {number}", lambda: Identity(name, name), measure)


def test_results_by_key_in_order_and_a_failure_ends_nothing() -> None:
    said: list[str] = []
    cases = [
        case("a", 1, 10),
        case("b", 1, error=HostccError("no luck")),
        case("a", 2, 20),
        case("b", 2, error=OSError("no file")),
    ]
    found = run_cases(Context(runs=2, out=None, say=said.append), Figure, cases)
    assert found.results == {"a": [Figure(10), Figure(20)]}
    assert found.failures == ["b, run 1: no luck", "b, run 2: no file"]
    assert said == [
        "1/4 a, run 1: Figure(value=10)",
        "b, run 1: no luck",
        "3/4 a, run 2: Figure(value=20)",
        "b, run 2: no file",
    ]
    assert found.notes == []


def test_finished_cases_are_not_measured_again(tmp_path: Path) -> None:
    context = Context(runs=1, out=tmp_path)
    run_cases(context, Figure, [case("a", 1, 10)])
    again = run_cases(context, Figure, [case("a", 1, 99), case("b", 1, 5)])
    assert again.results == {"a": [Figure(10)], "b": [Figure(5)]}
    fresh = run_cases(Context(runs=1, out=tmp_path, fresh=True), Figure, [case("a", 1, 99)])
    assert fresh.results == {"a": [Figure(99)]}


def test_a_report_measures_nothing_and_says_what_is_outdated(tmp_path: Path) -> None:
    run_cases(Context(runs=1, out=tmp_path), Figure, [case("a", 1, 10)])
    newer = Case("a", "cases/a-1", "a, run 1", lambda: Identity("a-1", "newer"), lambda: Figure(9))
    shown = run_cases(
        Context(runs=1, out=tmp_path, report_only=True), Figure, [newer, case("b", 1, 5)]
    )
    assert shown.results == {"a": [Figure(10)]}
    assert shown.notes == ["1 cases are of other programs than today's"]
    assert shown.failures == ["1 of 2 cases, first b, run 1"]


def test_wrong_input_is_no_failed_case() -> None:
    with pytest.raises(InputError, match="no such scenario"):
        run_cases(
            Context(runs=1, out=None), Figure, [case("a", 1, error=InputError("no such scenario"))]
        )


def test_one_measurement_in_every_run(tmp_path: Path) -> None:
    def measure(number: int) -> Figure:
        if number == 2:
            raise HostccError("no luck")
        return Figure(number)

    context = Context(runs=3, out=tmp_path)
    runs, failures = repeated(context, Figure, "x", {"size": 1}, measure)
    assert runs == [Figure(1), Figure(3)]
    assert failures == ["run 2: no luck"]
    assert sorted(path.name for path in (tmp_path / "cases").iterdir()) == ["x-1.json", "x-3.json"]


def test_other_code_of_hostcc_is_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, asked = tmp_path / "hostcc" / "daemon" / "agent.py", list[int]()
    code.parent.mkdir(parents=True)
    monkeypatch.setattr(hostcc, "__path__", [str(tmp_path / "hostcc")])

    def measure(number: int) -> Figure:
        asked.append(number)
        return Figure(number)

    context = Context(runs=1, out=tmp_path)
    for text, times in (("ticks = 1\n", 1), ("ticks = 1\n", 1), ("ticks = 2\n", 2)):
        code.write_text(text)
        assert repeated(context, Figure, "x", {"size": 1}, measure) == ([Figure(1)], [])
        assert len(asked) == times
