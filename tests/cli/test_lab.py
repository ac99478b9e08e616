"""`hostcc lab run`: what is refused before anything is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostcc.cli.main import main

pytestmark = pytest.mark.unit

JOB = '[[job]]\nname = "a"\ncompute_ms = 10\ncomm_ms = 10\n'
BACKGROUND = '[[background]]\nkind = "bulk"\n'


@pytest.mark.parametrize(
    ("scenario", "arguments", "words"),
    [
        (BACKGROUND, ["--plot", "live.png"], "a scenario with a [[job]], got none"),
        (BACKGROUND, ["--live"], "a scenario with a [[job]], got none"),
        (JOB, ["--compare", "cubic,reno,cubic"], "each variant once, got cubic"),
        (JOB, ["--compare", "cubic", "--cc", "cubic"], "each variant once, got cubic"),
        ('compare = ["cubic", "cubic"]\n' + JOB, [], "each variant once, got cubic"),
    ],
)
def test_refusals(
    scenario: str,
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 1000)  # nothing is built in any case
    Path("own.toml").write_text(scenario)
    assert main(["lab", "run", "own.toml", *arguments]) == 2
    assert capsys.readouterr().err.endswith(f": expected {words}\n")
