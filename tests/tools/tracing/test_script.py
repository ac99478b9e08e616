"""Options, bounds, and how a script ends."""

from __future__ import annotations

import argparse
import errno
import json
import signal

import pytest

from hostcc.errors import HostccError, InputError, NoAgentError
from tools.tracing.bcc_program import SetupError
from tools.tracing.script import (
    Output,
    Until,
    make_parser,
    positive_count,
    positive_seconds,
    ready,
    run,
)

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "x", "", "1e9"])
def test_bad_seconds(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        positive_seconds(text)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "x", "", "9" * 10])
def test_bad_counts(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        positive_count(text)


def test_good_bounds() -> None:
    assert positive_seconds("0.5") == 0.5
    assert positive_count("12") == 12


def parser() -> argparse.ArgumentParser:
    return make_parser("trace-x", "About.", "tools/trace-x --json", "N lines")


def test_ticks_end_with_the_duration_and_a_last_one() -> None:
    until = Until(duration_s=0.05)
    ticks = list(until.ticks(0.02))
    assert until.over
    assert ticks == sorted(ticks)
    assert ticks[-1] >= 0.05


def test_ticks_end_when_there_is_enough() -> None:
    until = Until(count=2)
    for _ in until.ticks(0.001):
        until.done += 1
    assert until.done == 2


def test_a_signal_gives_a_last_tick() -> None:
    until = Until()
    old = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    try:
        until.catch_signals()
        ticks = 0
        for _ in until.ticks(0.001):
            ticks += 1
            if ticks == 3:
                signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, old[0])
        signal.signal(signal.SIGTERM, old[1])
    assert ticks == 4


def test_output(capsys: pytest.CaptureFixture[str]) -> None:
    until = Until(count=1)
    out = Output("trace-x", True, until)
    out.heading("unseen")
    out.result({"a": 1}, "text")
    out.result({"a": 2}, "too many")
    out.note_once("hear")
    out.note_once("hear")
    ready(out, until, "things")
    seen = capsys.readouterr()
    assert [json.loads(line) for line in seen.out.splitlines()] == [{"a": 1}]
    assert seen.err == "trace-x: hear\ntrace-x: tracing things (Ctrl-C ends)\n"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (HostccError("bad\nthing"), 1),
        (InputError("bad"), 2),
        (SetupError("bad"), 2),
        (NoAgentError("bad"), 3),
        (BrokenPipeError(), 0),
        (OSError(errno.ENOSPC, "No space left on device"), 1),
        (None, 0),
    ],
)
def test_exit_statuses(
    error: Exception | None, status: int, capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(Until, "catch_signals", lambda _: None)
    monkeypatch.setattr("os.dup2", lambda *_: None)

    def body(*_: object) -> None:
        if error:
            raise error

    assert run(parser(), [], body) == status
    said = capfd.readouterr().err
    assert len(said.splitlines()) == (1 if status else 0)
