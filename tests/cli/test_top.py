"""`hostcc top`: screens of any size, keys, and a real terminal of 80 x 24."""

from __future__ import annotations

import argparse
import fcntl
import io
import json
import os
import pty
import re
import socket
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import convert

from hostcc.answers.history import History
from hostcc.answers.status import Status
from hostcc.cli import keyboard, top, top_screen
from hostcc.cli.sparkline import BLOCKS, PLAIN, sparkline
from hostcc.cli.top_screen import Choice, TopState, lines, ordered, pressed
from hostcc.client import RefusedError
from hostcc.errors import InputError, NoAgentError
from tests.cli.test_status_screen import ALARM, answer

pytestmark = pytest.mark.unit

TITLES = {"Job", "Stance", "Lvl", "Sent/s", "Iter.", "p99", "Alone", "Gain"}
MORE = {"Control", "Weight", "Procs", "Flows", "Iterations", "Comm.", "Per iter.", "Sent"}


def history(names: list[str]) -> History:
    """Job number n sends n + 1 MB/s."""
    jobs = [
        {"name": name, "sent": [None, *[1e6 * (at + 1)] * 20], "iteration_s": []}
        for at, name in enumerate(names)
    ]
    told = {"step_s": 1.0, "end": 1.0, "total": len(jobs), "jobs": jobs, "modes": []}
    return convert(told, History)


def state(jobs: int, alarms: int = 1, **choice: Any) -> TopState:
    told = answer(jobs, alarms)
    names = [job["name"] for job in told["jobs"]]
    return TopState(convert(told, Status), history(names), Choice(**choice))


def drawn(of: TopState, width: int = 80, height: int = 24, **more: Any) -> list[str]:
    return [line.plain for line in lines(of, width, height, **more)]


@pytest.mark.parametrize(("jobs", "words"), [(1, "1 job sends"), (2, "2 jobs send")])
def test_the_heading_counts_jobs(jobs: int, words: str) -> None:
    assert words in drawn(state(jobs))[0]


def test_no_job_can_be_started_while_the_agent_observes() -> None:
    assert "hostcc run" in drawn(state(0, alarms=0))[2]
    told = answer(0, 0)
    why = {"state": "observing", "reason": "observe_only is set"}
    told["agent"] = {**told["agent"], **why}
    observing = TopState(convert(told, Status), history([]), Choice())
    assert drawn(observing)[2].strip().endswith("what is measured: hostcc jobs --detail")


def test_forty_jobs_at_80x24() -> None:
    shown = drawn(state(40))
    assert len(shown) == 24
    assert max(map(len, shown)) <= 80
    assert ALARM in shown[1]
    titles = shown[2].replace("▼", "")
    assert set(titles.split()) == TITLES
    assert sum("training-job-" in line for line in shown) == 20
    first = shown[3]  # what sends most; it is whole
    for value in ("training-job-39", "scaled", "320 Mb/s", "█████", "240 ms", "251 ms"):
        assert value in first
    assert shown[-1].startswith("jobs 1 to 20 of 40")
    assert "…" not in "".join(shown)


def test_the_other_columns_are_on_the_second_page_or_on_a_wide_screen() -> None:
    second = drawn(state(3, second=True))
    assert set(second[2].replace("Per iter.", "Per_iter.").split()) == {
        "Job", *(title.replace("Per iter.", "Per_iter.") for title in MORE)
    }  # fmt: skip
    assert all(title in drawn(state(3), 170)[2] for title in TITLES | MORE)
    assert "12.3 GB" in drawn(state(3), 170)[3]


@pytest.mark.parametrize("width", [20, 40, 79, 80, 100, 250])
@pytest.mark.parametrize("height", [4, 10, 24, 60])
@pytest.mark.parametrize("jobs", [0, 1, 7, 40])
def test_any_size(width: int, height: int, jobs: int) -> None:
    for second in (False, True):
        shown = drawn(state(jobs, second=second), width, height)
        assert len(shown) <= height
        assert max(map(len, shown)) <= width
        assert shown[-1].startswith(f"jobs 1 to {min(jobs, 99)}"[:6] if jobs else "no jobs")


def test_alarms_are_first_folded_and_counted() -> None:
    shown = drawn(replace(state(40, alarms=30), trouble="no agent " + "x" * 90))
    assert shown[1].startswith("! not of now: no agent")
    assert shown[2].startswith("  xxx")
    assert re.fullmatch(r"! \d+ more lines: hostcc status", shown[8])
    assert sum("training-job-" in line for line in shown) >= 10


def test_sorting() -> None:
    of = state(12)
    names = [job.name for job in ordered(of)]
    assert names == sorted(names, reverse=True)  # the bandwidth
    by_name = replace(of, choice=Choice(sort="n"))
    assert [job.name for job in ordered(by_name)] == sorted(names)
    assert "Job▲" in drawn(by_name)[2]
    back = replace(of, choice=Choice(sort="n", reverse=True))
    assert [job.name for job in ordered(back)] == sorted(names, reverse=True)
    assert "Job▼" in drawn(back)[2]


def test_scrolling_and_keys() -> None:
    of = state(40, sort="n")
    page = top_screen.jobs_shown(of, 80, 24)
    assert page == 20

    def after(*keys: str) -> Choice:
        choice = of.choice
        for key in keys:
            following = pressed(choice, key, page, 40)
            assert following is not None
            choice = following
        return choice

    assert after("down", "j", "up").first == 1
    assert after("page-down", " ", "page-down").first == 20  # the last page is full
    assert after("end").first == 20
    assert after("end", "home").first == after("up").first == 0
    assert after("s").sort == "l"
    assert after("s", "S").sort == "n"
    assert after("g", "r") == Choice(sort="g", reverse=True)
    assert after("right").second
    assert not after("right", "left").second
    assert after("h").help
    assert not after("h", "x").help
    assert after("x") == of.choice
    assert pressed(of.choice, "q", page, 40) is None
    last = drawn(replace(of, choice=after("end")))
    assert "training-job-39" in last[-2]
    assert last[-1].startswith("jobs 21 to 40 of 40")
    # Jobs that have ended do not leave an empty screen.
    few = replace(state(5), choice=Choice(sort="n", first=20))
    assert sum("training-job-" in line for line in drawn(few)) == 5
    assert all(
        words in " ".join(drawn(replace(of, choice=after("h")))) for _, words in top_screen.KEYS
    )


def test_long_names_keep_both_ends_and_hostile_ones_are_escaped_before() -> None:
    told = answer(1)
    told["jobs"][0]["name"] = "x" * 60 + "-end"
    of = TopState(convert(told, Status))
    assert re.match(r"x+…x*-end ", drawn(of)[3])
    assert "x" * 60 + "-end" in drawn(of, 200)[3]


def test_without_unicode() -> None:
    shown = drawn(state(40), plain=True)
    assert all(line.isascii() for line in shown)
    assert "#####" in shown[3]


def test_sparklines() -> None:
    assert sparkline([0.0, 1.0, 2.0], 3) == f"{BLOCKS[0]}{BLOCKS[4]}{BLOCKS[7]}"
    assert sparkline([None, 8.0], 4, 16.0) == f"   {BLOCKS[4]}"
    assert sparkline([5.0] * 9, 4, plain=True) == PLAIN[-1] * 4
    assert sparkline([0.0], 1) == BLOCKS[0]
    assert sparkline([], 3) == "   "
    assert sparkline([1.0], 0) == ""
    assert sparkline([-3.0, 50.0], 2, 10.0) == f"{BLOCKS[0]}{BLOCKS[7]}"


def test_names_of_keys() -> None:
    assert keyboard.names(b"q\x1b[A\x1b[6~\x1bOHj") == ["q", "up", "page-down", "home", "j"]
    assert keyboard.names(b"\x1b[200~\x1b[1;5A\x01\xff\x1b") == []
    assert keyboard.names(b"\x1b[A\x1b") == ["up"]


def call(*words: str) -> int:
    parser = argparse.ArgumentParser()
    top.register(parser.add_subparsers())
    args = parser.parse_args(["top", *words])
    status: int = args.func(args)
    return status


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    of = state(40)
    told: dict[str, Any] = {"status": answer(40), "history": msgspec.to_builtins(of.history)}

    def ask(path: Path, op: str, **fields: Any) -> Any:
        if not told:
            raise NoAgentError("no agent")
        if op not in told:
            raise RefusedError("failed", "history is not known")
        return told[op]

    monkeypatch.setattr(top, "ask", ask)
    return told


def test_once(
    answers: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    assert call("--once", "--sort", "n") == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 24
    assert shown[3].startswith("training-job-00")
    assert call("--json") == 0
    assert json.loads(capsys.readouterr().out) == answers["history"]
    del answers["history"]  # an agent of an earlier version
    assert call("--once") == 0
    assert "not of now: history is not known" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "expected a terminal; elsewhere: --once"),
        (["--every", "0.1"], "--every: expected seconds from 0.2"),
        (["--sort", "x"], '--sort: expected one of n l b i p a g, got "x"'),
    ],
)
def test_wrong_usage(
    answers: dict[str, Any], words: list[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with pytest.raises(InputError, match=re.escape(expected)):
        call(*words)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Path]:
    """A socket that answers status and history of forty jobs."""
    path = tmp_path / "control.sock"
    told = {"status": answer(40), "history": msgspec.to_builtins(state(40).history)}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(path))
        server.listen()

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    op = json.loads(client.recv(1 << 16))["op"]
                    client.sendall(
                        json.dumps({"v": 1, "ok": True, "result": told[op]}).encode() + b"\n"
                    )

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield path
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.slow
def test_on_a_terminal_of_80x24(agent: Path) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(theirs)
    sized = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    words = [sys.executable, "-m", "hostcc", "top", "--every", "0.2", "--socket", str(agent)]
    environment = {**sized, "TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
    with subprocess.Popen(
        words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    ) as process:
        seen = b""

        def wait_for(text: bytes) -> None:
            nonlocal seen
            while text not in seen:
                seen += os.read(ours, 1 << 16)

        wait_for(b"jobs 1 to 20 of 40")
        os.write(ours, b"n\x1b[6~")
        wait_for(b"jobs 21 to 40 of 40")
        assert process.poll() is None
        os.write(ours, b"q")
        assert process.wait(60) == 0
        while b"\x1b[?1049l" not in seen:  # the screen is given back
            seen += os.read(ours, 1 << 16)
        assert termios.tcgetattr(theirs) == before
    os.close(theirs)
    os.close(ours)
    frame = next(one for one in seen.split(b"\x1b[H") if b"jobs 21 to 40 of 40" in one).decode()
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", frame).split("\r\n")
    assert len(shown) <= 24
    assert max(len(line.rstrip()) for line in shown) <= 80
    assert ALARM in shown[1]
    assert set(shown[2].replace("▲", "").split()) == TITLES
    assert any("training-job-39" in line for line in shown)
