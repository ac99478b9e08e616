"""In the guest: programs that are started one after the other, and waited for together."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.vm.patience import until, worked_s

WORK_S = 300.0
"""More processor time than any program here needs."""
LEFT_S = 20.0
"""The same of one whose other end has failed: it may wait for that for ever."""


class Programs:
    """Programs with the same environment."""

    def __init__(self, **environment: str) -> None:
        self._env = os.environ | environment
        self.processes: list[subprocess.Popen[bytes]] = []
        self.texts: list[str] = []
        """What each has printed, once all have ended."""

    def start(self, words: Sequence[str]) -> None:
        """Start one more."""
        self.processes.append(
            subprocess.Popen(
                words,
                env=self._env,
                stdin=subprocess.DEVNULL,  # mpirun reads ours
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        )

    def await_server(self, ready: Callable[[], bool]) -> None:
        """Wait until the one that others connect to is ready, or all have ended."""
        until(lambda: ready() or self.ended(), self.worked_s, "a server", WORK_S)

    def worked_s(self) -> float:
        """Seconds of processor time, with that of the programs that they have started."""
        return worked_s([pid for one in self.processes for pid in (one.pid, *children(one.pid))])

    def ended(self) -> bool:
        """Whether all have."""
        return all(process.poll() is not None for process in self.processes)

    def failed(self) -> bool:
        """Whether one has ended with an error."""
        return any(process.poll() for process in self.processes)

    def end(self) -> dict[str, Any]:
        """Exit statuses, and the end of what was printed."""
        stuck = ""
        try:
            until(
                lambda: self.ended() or self.failed(), self.worked_s, "the end of a program", WORK_S
            )
            until(self.ended, self.worked_s, "the end of a program that is alone", LEFT_S)
        except AssertionError as error:
            stuck = f"killed: {error}\n"
            for process in self.processes:
                process.kill()
        self.texts = [one.communicate()[0].decode(errors="replace") for one in self.processes]
        return {
            "status": [process.returncode for process in self.processes],
            "output": [stuck + text[-1500:] for text in self.texts],
        }


def children(pid: int) -> list[int]:
    """Those that a process has started, like mpirun."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []
