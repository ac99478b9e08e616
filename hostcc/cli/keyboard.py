"""Keys that are pressed, one by one, on a terminal whose lines are not edited meanwhile."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from types import TracebackType

SEQUENCES = {
    b"\x1b[A": "up", b"\x1b[B": "down", b"\x1b[C": "right", b"\x1b[D": "left",
    b"\x1bOA": "up", b"\x1bOB": "down", b"\x1bOC": "right", b"\x1bOD": "left",
    b"\x1b[5~": "page-up", b"\x1b[6~": "page-down",
    b"\x1b[H": "home", b"\x1b[F": "end", b"\x1bOH": "home", b"\x1bOF": "end",
    b"\x1b[1~": "home", b"\x1b[4~": "end", b"\x1b[7~": "home", b"\x1b[8~": "end",
}  # fmt: skip
"""What terminals send for keys without a character."""
MAX_BYTES = 256
"""That are read at once: who pastes a book does not keep the screen waiting."""
CLOSED = "closed"
"""As if it were a key: the terminal is gone."""


def names(data: bytes) -> list[str]:
    """Name the keys in what a terminal sent; unknown sequences are left out."""
    found, at = [], 0
    while at < len(data):
        if data[at : at + 1] != b"\x1b":
            character = data[at : at + 1].decode("ascii", "replace")
            if character.isprintable() and character != "�":
                found.append(character)
            at += 1
            continue
        end = at + 1
        if data[end : end + 1] in (b"[", b"O"):
            end += 1
            while end < len(data) and not 0x40 <= data[end] <= 0x7E:
                end += 1
            end += 1
        if (name := SEQUENCES.get(data[at:end])) is not None:
            found.append(name)
        at = end
    return found


class Keyboard:
    """Standard input; its terminal is as it was before when this ends."""

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno()

    def __enter__(self) -> Keyboard:
        """Take keys as they come; Ctrl-C still interrupts."""
        self._before = termios.tcgetattr(self._fd)
        tty.setcbreak(self._fd)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Put the terminal back."""
        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def pressed(self, wait_s: float) -> list[str]:
        """Wait for keys, at most so long."""
        ready, _, _ = select.select([self._fd], [], [], max(0.0, wait_s))
        if not ready:
            return []
        try:
            data = os.read(self._fd, MAX_BYTES)
        except OSError:
            return [CLOSED]
        return names(data) if data else [CLOSED]
