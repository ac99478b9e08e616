"""A program that says lines and waits for some, as those in `native` do."""

from __future__ import annotations

import subprocess


class Dialogue:
    """What is said to such a program, and what it says; `process` has pipes for text."""

    process: subprocess.Popen[str]

    def says(self) -> str:
        """Its next line; empty once it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go(self) -> None:
        """Let it go on."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
