"""A process that outlives the agent, so that no socket stays marked.

The kernel ends an agent's programs with it, but a DSCP mark is in the socket, and has to be taken
away.  The guard holds the descriptors for that and waits for the end of a pipe.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import hostcc
from hostcc.daemon.marking.guard_process import DISMISSED
from hostcc.paths.mark_kernel import MarkKernel

PROGRAM = Path(__file__).with_name("guard_process.py")
DISMISS_TIMEOUT_S = 2.0
"""Seconds until a guard that does not end is killed."""
TAKE_OVER_TIMEOUT_S = 5.0
"""Seconds that its walk over all sockets is waited for."""


class Guard:
    """One guard.  Raises OSError when it cannot be started."""

    def __init__(self, kernel: MarkKernel, *, everywhere: bool) -> None:
        table, walk, length, size = kernel.remains
        read, self._write = os.pipe()
        words = (read, table, walk, length, size, int(everywhere))
        top = str(Path(hostcc.__file__).parents[1])
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-P", str(PROGRAM), *map(str, words)],
                env={**os.environ, "PYTHONPATH": top},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(read, table, walk),
                start_new_session=True,
            )
        except OSError:
            os.close(self._write)
            raise
        finally:
            os.close(read)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self._process.poll() is None

    def take_over(self) -> None:
        """Have it take the marks away, as when the agent has died; it may end later than this."""
        os.close(self._write)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(TAKE_OVER_TIMEOUT_S)

    def dismiss(self) -> None:
        """End it: no mark is left to take away."""
        try:
            os.write(self._write, DISMISSED)
        except BrokenPipeError:
            pass
        finally:
            os.close(self._write)
        try:
            self._process.wait(DISMISS_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
