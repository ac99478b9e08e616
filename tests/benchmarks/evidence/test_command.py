"""`hostcc evidence`: the list, the document, the folder, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.evidence import registry
from benchmarks.registry import BENCHMARKS
from hostcc.cli import bench
from hostcc.cli.main import main
from hostcc.errors import Exit

pytestmark = pytest.mark.unit
TOP = Path(__file__).parents[3]


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["evidence", *words]) == Exit.OK
    return capsys.readouterr().out


def test_the_list_has_what_is_measured_elsewhere_and_what_is_absent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = printed(capsys, "list")
    assert all(f"\n{name} " in out for name in registry.every())
    assert "hostcc bench mltcp" in out
    assert "Figures 4.11 to 4.17" in out
    document = json.loads(printed(capsys, "list", "--json"))
    assert document["schema"] == "hostcc.evidence-list/1"
    assert {one["benchmark"] for one in document["benchmarks"]} <= set(BENCHMARKS)
    assert all(one["why"] for one in document["absent"])


def test_names_are_in_the_order_of_figures() -> None:
    names = list(registry.every())
    assert names.index("crux-4-5-6") < names.index("crux-7") < names.index("crux-11-15")
    assert names.index("routing-4-6") < names.index("routing-7") < names.index("thesis-3.1")


def test_fitted_and_predicted_are_printed_apart(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "crux-11-15")
    fitted, predicted = out.index("\nfitted to"), out.index("\npredicted\n")
    assert fitted < out.index("Fig. 14, exact K-cut") < predicted < out.index("Fig. 13, exact")


def test_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(printed(capsys, "thesis-4.5", "--quick", "--json"))
    assert (document["schema"], document["quick"]) == ("hostcc.evidence/1", True)
    (found,) = document["evidence"]
    assert (found["name"], found["met"]) == ("thesis-4.5", True)
    for line in found["lines"]:
        assert line["difference"] == pytest.approx(line["here"] - line["published"])
    assert {line["kind"] for line in found["lines"]} == {"fitted", "predicted"}
    assert found["missing"]


def test_a_folder_gets_the_document_and_plots(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    out = printed(capsys, "thesis-3.1", "--quick", "--out", str(tmp_path / "new"))
    assert "written: " in out
    kept = json.loads((tmp_path / "new" / "evidence.json").read_text())
    assert kept["evidence"][0]["name"] == "thesis-3.1"
    assert (tmp_path / "new" / "thesis-3.1.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["crux-99"], "expected one of"),
        (["list", "--quick"], "list: expected neither"),
        (["thesis-4.5", "--out", "/dev/null/x"], "/dev/null/x: Not a directory"),
    ],
)
def test_refusals(words: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evidence", *words]) != Exit.OK
    assert expected in capsys.readouterr().err


def test_elsewhere_it_says_where_the_studies_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "SOURCE", tmp_path)
    assert main(["evidence", "all", "--quick"]) == Exit.FAILED
    assert ".venv/bin/hostcc evidence NAME" in capsys.readouterr().err


def test_the_page_has_every_name() -> None:
    page = (TOP / "docs/evidence.md").read_text()
    assert all(f"`{name}`" in page for name in registry.every())
    assert "`hostcc.evidence/1`" in page
    assert "`hostcc.evidence-list/1`" in page
