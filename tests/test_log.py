"""One event, one line, whatever is in it."""

from __future__ import annotations

import json
import logging
import re

import pytest

from hostcc import log as logs


def test_text(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    logs.configure("info", "text")
    log = logs.get_logger("agent")
    log.debug("not shown")
    log.info("job appeared", job="a", why="two words", odd='x"\n')
    line = capsys.readouterr().err
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z info agent: job appeared "
        r'job=a why="two words" odd="x\\"\\n"\n',
        line,
    )


def test_text_under_systemd(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOURNAL_STREAM", "8:1")
    logs.configure("info", "text")
    logs.get_logger("agent").warning("odd")
    assert capsys.readouterr().err == "<4>agent: odd\n"


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("debug", "json")
    log = logs.get_logger("agent")
    log.debug("seen", n=1)
    log.defect("failed", ValueError("x\ny"))
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert (first["level"], first["part"], first["event"], first["n"]) == (
        "debug",
        "agent",
        "seen",
        1,
    )
    assert "ValueError" in second["traceback"]


def test_what_a_test_configures_ends_with_it() -> None:
    logger = logging.getLogger("hostcc")
    assert (logger.handlers, logger.level, logger.propagate) == ([], logging.NOTSET, True)
