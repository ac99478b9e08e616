"""`status --watch` on screens of any size: nothing scrolls, no column is lost, alarms first."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert
from rich.console import Console

from hostcc.answers.status import Status
from hostcc.cli import status
from hostcc.cli.status_screen import FittedScreen
from tests.cli.test_tables import AGENT, GOSSIP, JOB

pytestmark = [pytest.mark.unit, pytest.mark.slow]

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
ALARM = "egress failed: eth0: there is no such device"


def answer(jobs: int, alarms: int = 1, **more: Any) -> dict[str, Any]:
    parts = [
        {"name": "egress", "state": "failed", "reason": f"eth{number}: there is no such device"}
        for number in range(alarms)
    ]
    rows = [{**JOB, "name": f"training-job-{number:02}"} for number in range(jobs)]
    return {"agent": AGENT, "jobs": rows, "parts": parts, "notes": [], **more}


def drawn(told: dict[str, Any], width: int, height: int) -> list[str]:
    """The lines of a screen."""
    out = io.StringIO()
    made = Console(file=out, width=width, height=height, markup=False, highlight=False)
    made.print(FittedScreen(convert(told, Status)), crop=False)
    return [line.rstrip() for line in out.getvalue().rstrip("\n").splitlines()]


def headings(lines: list[str]) -> bool:
    """Whether every column's heading is there."""
    words = " ".join(lines)
    return all(heading in words for heading, _ in status.COLUMNS)


def test_forty_jobs_at_80x24() -> None:
    lines = drawn(answer(40, gossip={**GOSSIP, "insecure": True}), 80, 24)
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert headings(lines)
    insecure, failed = (
        next(at for at, line in enumerate(lines) if words in line) for words in ("INSECURE", ALARM)
    )
    first = next(at for at, line in enumerate(lines) if "training-job-00" in line)
    assert 0 < insecure < failed < first
    shown = sum("training-job-" in line for line in lines)
    assert shown >= 5
    assert lines[-1] == f"... and {40 - shown} more jobs"
    # Each job that is shown is shown whole.
    text = " ".join(lines)
    for value in ("hcc_ab12_host", "scaled", "251 ms of 40", "99.8 ms", "250 MB", "12.3 GB"):
        assert text.count(value) == shown


@pytest.mark.parametrize("width", [40, 74, 80, 100, 130, 200])
@pytest.mark.parametrize("height", [8, 24, 60])
@pytest.mark.parametrize("jobs", [0, 1, 7, 40])
def test_any_size(width: int, height: int, jobs: int) -> None:
    told = answer(jobs)
    lines = drawn(told, width, height)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert ALARM in " ".join(" ".join(lines).split())
    if not jobs or width < 74:  # names and headings are folded there
        return
    shown = sum("training-job-" in line for line in lines)
    assert headings(lines) or not shown
    more = re.search(r"(\d+)(?: more)? jobs$", "\n".join(lines), re.MULTILINE)
    assert shown + (int(more[1]) if more else 0) == jobs


def test_a_wide_screen_has_a_line_for_each_job() -> None:
    lines = drawn(answer(7), 200, 24)
    assert sum("training-job-" in line and "12.3 GB" in line for line in lines) == 7


def test_a_long_name_is_folded_and_not_cut() -> None:
    told = answer(1)
    told["jobs"][0]["name"] = "x" * 60 + "-end"
    text = "".join("".join(drawn(told, 70, 24)).split())
    assert "-end" in text
    assert text.count("x") >= 60


def test_alarms_leave_room_for_jobs_and_are_counted() -> None:
    lines = drawn(answer(40, alarms=30), 80, 24)
    assert len(lines) <= 24
    assert any(re.fullmatch(r"\.\.\. and \d+ more alarms", line) for line in lines)
    assert any("training-job-00" in line for line in lines)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Path]:
    """A socket that answers every request with forty jobs."""
    path = tmp_path / "control.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(path))
        server.listen()
        line = json.dumps({"v": 1, "ok": True, "result": answer(40)}).encode() + b"\n"

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    client.recv(1 << 16)
                    client.sendall(line)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield path
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize("sigint", ["-", "''"])
def test_on_a_terminal(agent: Path, sigint: str) -> None:
    """Until Ctrl-C, also where a shell has started it with SIGINT ignored."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    sized = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    words = [sys.executable, "-m", "hostcc", "status", "--watch", "0.2", "--socket", str(agent)]
    with subprocess.Popen(
        ["sh", "-c", f'trap {sigint} INT; exec "$0" "$@"', *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**sized, "TERM": "xterm"},
        start_new_session=True,
    ) as process:
        os.close(theirs)
        seen = b""
        while seen.count(b"more jobs") < 3:  # it is drawn again, too
            seen += os.read(ours, 1 << 16)
        process.send_signal(signal.SIGINT)
        while True:
            try:
                seen += os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                break
        assert process.wait(20) == 0
    os.close(ours)
    assert seen.startswith(b"\x1b[?1049h") or b"\x1b[?1049h" in seen  # a screen of its own
    frame = seen.split(b"\x1b[H")[-2].decode()
    lines = [line.rstrip() for line in ESCAPE.sub("", frame).split("\r\n")]
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert headings(lines)
    assert any(ALARM in line for line in lines)
    assert any(re.search(r"and \d+ more jobs", line) for line in lines)


def test_the_gain_is_a_factor_or_a_percentage_and_empty_when_unknown() -> None:
    told = answer(3)
    told["jobs"][0] |= {"alone_s": 0.2, "gain": 1.234, "gain_over": "off"}
    told["jobs"][1] |= {"alone_s": 0.2, "gain": 0.8, "gain_over": "alone"}
    rows = [status.job_row(one)[-2:] for one in convert(told, Status).jobs]
    assert rows == [("200 ms", "1.23x"), ("200 ms", "80%"), ("", "")]
