"""Processes in a namespace and a cgroup that carry out a test's orders, a line of JSON each."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hostcc.lab import netns

POLL_S = 0.05


class CommandedProcess:
    """Runs a script whose class has a method for each order; `meanwhile` is called while it is
    busy."""

    def __init__(
        self,
        script: Path,
        namespace: str,
        cgroup: Path,
        meanwhile: Callable[[], object] | None = None,
    ) -> None:
        self._meanwhile = meanwhile
        self.process = netns.spawn(
            [sys.executable, "-I", "-S", str(script)], namespace=namespace, cgroup=cgroup,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def start(self, name: str, **arguments: Any) -> None:
        """Give an order; `answer` waits for what comes of it."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([name, arguments]).encode() + b"\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """Wait for what came of the oldest order that has no answer yet."""
        assert self.process.stdout is not None
        if self._meanwhile:
            while not select.select([self.process.stdout], [], [], POLL_S)[0]:
                self._meanwhile()
        line = self.process.stdout.readline()
        assert line, f"the process died with status {self.process.wait()}"
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer["value"]

    def ask(self, name: str, **arguments: Any) -> Any:
        self.start(name, **arguments)
        return self.answer()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()
