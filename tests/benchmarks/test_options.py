"""Command-line values: bounds, and refusals in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import options
from benchmarks.registry import BENCHMARKS, KEEP_NOTHING
from hostcc.cli.main import main
from hostcc.errors import InputError

pytestmark = pytest.mark.slow


def test_good_values() -> None:
    assert options.whole("--n", 1, 9)("7") == 7
    assert options.fraction("--s", 0.5, 9)("0.5") == 0.5
    assert options.wholes("--n", 1, 9)("1, 8,1") == (1, 8)
    assert options.names("--v", ("a", "b"))("b,a,b") == ("b", "a")


@given(st.text(max_size=30))
def test_anything_else_is_refused_in_one_line(text: str) -> None:
    for parse in (
        options.whole("--n", 1, 9),
        options.fraction("--n", 1, 9),
        options.wholes("--n", 1, 9),
        options.names("--n", ("a", "b")),
    ):
        try:
            parse(text)
        except InputError as error:
            assert str(error).startswith("--n: expected ")
            assert "\n" not in str(error)


@pytest.mark.parametrize(
    "words",
    [
        ["mltcp", "--runs", "0"],
        ["mltcp", "--flows", "1,65"],
        ["mltcp", "--scenarios", "nine-jobs"],
        ["mltcp", "--variants", ","],
        ["mltcp", "--report"],
        ["mltcp-sweep", "--factors", "colour"],
        ["mltcp-kill", "--iterations", "1"],
        ["ack-cost", "--controls", "vegas"],
        ["agent-cost", "--seconds", "nan"],
        ["agent-cost", "--open", "-1"],
        ["agent-cost", "--burst", "0"],
        ["agent-cost", "--learn", "inf"],
        ["gossip-sockets", "--members", "5"],
        ["gossip-sockets", "--minutes", "nan"],
        ["soak", "--minutes", "0"],
        ["soak", "--seed", "-1"],
    ],
)
def test_bad_input_through_the_command_line(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "expected" in printed.err


def test_a_report_of_what_is_missing_keeps_the_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["bench", "period", "--runs", "1", "--classes", "one burst"]
    words += ["--out", str(tmp_path)]
    assert main([*words, "--series", "1"]) == 0
    kept = (tmp_path / "period.json").read_bytes()
    assert main([*words, "--series", "1", "--runs", "2", "--report"]) == 1
    assert "not measured: 1 of 2 cases, first one burst #2" in capsys.readouterr().out
    assert (tmp_path / "period.json").read_bytes() == kept
    assert main([*words, "--series", "2", "--report"]) == 2
    assert (tmp_path / "period.json").read_bytes() == kept
    assert main([*words, "--series", "1", "--report"]) == 0
    assert main([*words, "--report", "--out", str(tmp_path / "none")]) == 2
    assert not (tmp_path / "none").exists()


def test_a_report_of_nothing_keeps_the_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "shifts.json"
    kept.write_text("{}")
    assert main(["bench", "shifts", "--report", "--out", str(tmp_path)]) == 2
    assert "expected finished cases of these options, found none" in capsys.readouterr().err
    assert kept.read_text() == "{}"


@pytest.mark.parametrize("name", sorted(KEEP_NOTHING))
def test_what_keeps_no_cases_reports_nothing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / f"{name}.json"
    kept.write_text("{}")
    folder = [str(tmp_path)] * (name in ("golden", "routing"))
    assert main(["bench", name, *folder, "--report", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        "hostcc bench: --report: this benchmark keeps no cases; run it without\n"
    )
    assert kept.read_text() == "{}"


def test_every_other_benchmark_knows_how_to_report() -> None:
    keepers = ("run_cases(", "repeated(", "campaign.run(", "compared.measure(", "report_only")
    for name, (module, _) in BENCHMARKS.items():
        source = Path(sys.modules["benchmarks"].__path__[0], f"{module}.py").read_text()
        assert any(word in source for word in keepers) == (name not in KEEP_NOTHING), name


def test_list_names_every_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "list"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names[0] == "mltcp"
    assert len(names) == len(set(names)) == 41


def test_every_module_with_options_is_a_benchmark() -> None:
    """Beside `compared`, whose options two of them share."""
    sources = Path(__file__).parents[2] / "benchmarks"
    found = {path.stem for path in sources.glob("*.py") if "\ndef add_options(" in path.read_text()}
    assert found - {"compared"} == {module for module, _ in BENCHMARKS.values()}


def test_the_package_is_a_command_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "list"], capture_output=True, text=True, check=True
    )
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(BENCHMARKS)
