"""Commands, run as a person runs them, on what an agent says that others have said."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.test_foreign import NASTY, harmless

pytestmark = pytest.mark.kernel

PEERS = {
    "schema": "hostcc.peers/1", "name": "here", "held": "ab", "key": "cd",
    "peers": [
        {
            "name": "node2", "state": "alive", "shut_out": False, "rtt_s": 0.1, "version": NASTY,
            "held": "ab", "active": "ab", "heard_s": 1.0, "link": NASTY, "address": NASTY,
        }
    ],
    "troubles": [{"reason": NASTY, "who": NASTY, "text": NASTY}],
    "disagreements": [
        {
            "option": NASTY, "here": NASTY,
            "there": [{"value": NASTY, "members": [NASTY], "count": 1}],
        }
    ],
}  # fmt: skip
VERIFY = {
    "observing": "", "checked": 1, "left_alone": [],
    "differences": [dict.fromkeys(("id", "target", "expected", "found"), NASTY)],
}  # fmt: skip
ROLLBACK = {"undone": [NASTY], "problems": [NASTY]}

Ask = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Runs a command against an agent that gives this answer."""

    def run(answer: dict[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "control.sock"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen()

            def once() -> None:
                one, _ = listener.accept()
                with one:
                    one.recv(1 << 16)
                    one.sendall(json.dumps(answer).encode() + b"\n")

            thread = threading.Thread(target=once)
            thread.start()
            done = subprocess.run(
                [sys.executable, "-m", "hostcc", *words, "--socket", str(path)],
                capture_output=True, check=False, timeout=120,
            )  # fmt: skip
            thread.join()
        path.unlink()
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    return run


@pytest.mark.parametrize(
    ("words", "result"),
    [(("peers",), PEERS), (("verify",), VERIFY), (("rollback",), ROLLBACK)],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_nothing_that_others_said_is_obeyed(
    ask: Ask, words: tuple[str, ...], result: dict[str, Any], form: tuple[str, ...]
) -> None:
    done = ask({"v": 1, "ok": True, "result": result}, *words, *form)
    printed = done.stdout + done.stderr
    assert "owned" in printed
    assert all(map(harmless, printed.split("\n")))
    assert not any(line.startswith("root#") for line in printed.split("\n"))
    if form:
        assert json.loads(done.stdout) == result  # as it was said


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_nor_what_an_agent_refuses_with(ask: Ask, form: tuple[str, ...]) -> None:
    error = {"code": "failed", "message": NASTY}
    done = ask({"v": 1, "ok": False, "error": error}, "peers", *form)
    assert done.returncode != 0
    printed = done.stdout + done.stderr
    assert "owned" in printed
    assert all(map(harmless, printed.split("\n")))
