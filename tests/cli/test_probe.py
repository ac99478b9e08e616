"""What `hostcc probe` refuses."""

from __future__ import annotations

import pytest

from hostcc.cli.main import main

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "words",
    [
        ["router"],
        ["198.18.0.300"],
        ["224.0.0.1"],
        ["127.0.0.1", "--from", "::1"],
        ["127.0.0.1", "--from", "me"],
        ["127.0.0.1", "--port", "70000"],
        ["127.0.0.1", "--ports", "5-3"],
        ["127.0.0.1", "--ports", "a-b"],
        ["127.0.0.1", "--risk", "0"],
        ["127.0.0.1", "--risk", "nan"],
        ["127.0.0.1", "--rate", "0"],
        ["127.0.0.1", "--seconds", "0"],
    ],
)
def test_bad_input(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "expected" in printed.err
