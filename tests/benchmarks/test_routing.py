"""The routing benchmark: cases, the solver beside brute force, ratios and goals."""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

import numpy as np
import pytest

from benchmarks import routing, routing_cases, routing_optimum
from benchmarks.context import Context
from hostcc.errors import InputError
from hostcc.schedule.paths import clos as closes
from hostcc.schedule.paths import two_layer
from tests.schedule.paths import cases
from tests.sim import traffic_files

pytestmark = [pytest.mark.unit, pytest.mark.slow]

GOLDEN = Path(__file__).parents[1] / "schedule" / "golden" / "paths.json"


OUTSIDE = (
    '{"cases": [{"name": "x", "tors": 2, "spines": 2, "commodities": [[0, %s, 1]], '
    '"optimal_max_load": 1}]}'
)
NO_TORS = """
{"cases": [{"name": "", "tors": 0, "spines": 1, "commodities": [], "optimal_max_load": 1}]}
"""


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    routing.add_options(parser)
    return parser.parse_args(words)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing_cases, "CROWD", ((40, 6, 3),))
    monkeypatch.setattr(routing_cases, "ARRIVAL_JOBS", 30)
    monkeypatch.setattr(routing, "ANNEALING_STEPS", 200)
    monkeypatch.setattr(routing_cases, "permutations", lambda seed: iter(()))
    monkeypatch.setattr(routing_cases, "uneven", lambda seed: iter(()))


@pytest.mark.usefixtures("few")
def test_the_record_has_a_row_per_case_and_ratios_of_at_least_one(tmp_path: Path) -> None:
    folder = traffic_files.write(tmp_path)
    args = options(str(folder), "--failed-spines", "0,1", "--golden", str(GOLDEN))
    record = routing.run(args, Context(runs=1, out=None))
    names = [row["case"] for row in record.rows]
    assert len(names) == 17 + 2 * 4 + 2
    for row in record.rows:
        assert all(row[method] >= 1 - 1e-6 for method in routing.METHODS)  # type: ignore[operator]
    assert [goal.met for goal in record.goals[:2]] == [True, True]
    assert [goal.scope for goal in record.goals[2:]] == [
        "30 jobs, all paths",
        "a job arrives in 30",
    ]
    assert record.failures == []


def test_irregular_fabrics() -> None:
    found = list(routing_cases.uneven(0))
    assert [case.demands for case in found] == ["equal", "unequal"] * 2
    for case in found:
        closes.check(case.clos, case.flows)
    assert (found[0].clos.up == 0).any()
    assert len(np.unique(found[2].clos.up)) == 2


@pytest.mark.usefixtures("few")
def test_two_runs_find_the_same(tmp_path: Path) -> None:
    args = options(str(traffic_files.write(tmp_path)), "--failed-spines", "1")
    runs = [routing.run(args, Context(runs=1, out=None)).rows for _ in range(2)]
    first, second = ([{**row, "seconds": None} for row in rows] for rows in runs)
    assert first == second


def test_a_relative_folder_is_as_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its golden cases are beside it or one folder above, whatever it is called."""
    folder = tmp_path / "data" / "routing-traffic"
    folder.mkdir(parents=True)
    traffic_files.write(folder)
    golden = tmp_path / "golden" / "paths.json"
    golden.parent.mkdir()
    golden.write_bytes(GOLDEN.read_bytes())
    monkeypatch.chdir(folder)
    assert routing._places(Path(), None)[1] is not None
    monkeypatch.chdir(folder.parent)
    for words in (".", "routing-traffic"):
        where, found = routing._places(Path(words), None)
        assert (where / "topology.properties").exists()
        assert found is not None
        assert found.read_bytes() == GOLDEN.read_bytes()


def test_the_solver_agrees_with_brute_force() -> None:
    for seed in range(4):
        clos = closes.without_links(closes.uniform(3, 3), [(0, seed % 3)])
        flows = cases.random_flows(seed, 3, 7, unequal=True)
        usable = (clos.up[flows.src] > 0) & (clos.down[flows.dst] > 0)
        least = min(
            two_layer.peak(clos, flows, np.array(spines))
            for spines in itertools.product(range(3), repeat=7)
            if usable[range(7), spines].all()
        )
        best = routing_optimum.solve(clos, flows, seconds=20)
        assert best.exact
        assert best.found == pytest.approx(least)
        assert best.spine is not None
        assert two_layer.peak(clos, flows, best.spine) == pytest.approx(least)
        assert (best.spine[flows.src == flows.dst] == -1).all()


def test_the_seed_chooses_which_spines_fail() -> None:
    few, many = (set(routing_cases.failed_spines(32, count, 0).tolist()) for count in (4, 8))
    assert (len(few), len(many)) == (4, 8)
    assert few < many
    assert few != set(routing_cases.failed_spines(32, 4, 1).tolist())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "JSON"),
        ("[" * 100_000, "JSON"),
        (OUTSIDE % "2", "expected ToRs below 2"),
        (OUTSIDE % "-1", r"commodities\[0\]"),
        (OUTSIDE % ("1" + "0" * 400), r"commodities\[0\]"),
        ('{"cases": [{"name": "x", "tors": 2}]}', "spines"),
        (
            NO_TORS,
            "1 to",
        ),
    ],
)
def test_wrong_golden_files_are_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "paths.json"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        list(routing_cases.golden(path))


@pytest.mark.usefixtures("few")
def test_what_cannot_be_measured_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"topology\.properties"):
        routing.run(options(str(tmp_path)), Context(runs=1, out=None))
    folder = traffic_files.write(tmp_path)
    with pytest.raises(InputError, match="less than 2"):
        routing.run(options(str(folder), "--failed-spines", "2"), Context(runs=1, out=None))
