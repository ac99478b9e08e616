"""What an operator has turned off for good: kept on disk across restarts and boots.

In `hold.json`: of the usual run directory, which a boot empties, below /var/lib.  A file that
cannot be read holds, too: acting again is for an operator to say.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from hostcc.config.sections.agent import AgentConfig
from hostcc.errors import HostccError, InputError, one_line
from hostcc.log import get_logger
from hostcc.system import ownership, whole_file

log = get_logger("hold")

MAX_BYTES = 4096
RELEASE = "`hostcc unfair mltcp` acts again"


class Hold(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is held."""

    schema: Literal["hostcc.hold/1"] = "hostcc.hold/1"
    what: Literal["off", "rollback"]
    """off: jobs share fairly.  rollback: the agent only observes."""
    who: Annotated[str, Meta(max_length=200)]
    at: Annotated[float, Meta(ge=0, le=1e11)]
    """Seconds since the epoch."""

    def line(self) -> str:
        """For people."""
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.at))
        did = "rolled back and held" if self.what == "rollback" else "held"
        return one_line(f"{did} since {when} by {self.who}; {RELEASE}")


class HoldFile:
    """The hold of one agent.  `read` first; methods raise HostccError."""

    def __init__(self, run_dir: Path) -> None:
        self.path = AgentConfig(run_dir=str(run_dir)).state_dir / "hold.json"
        self.current: Hold | None = None
        self._run_dir = run_dir

    @property
    def line(self) -> str | None:
        """What is held, for people; None: nothing."""
        return self.current.line() if self.current is not None else None

    def read(self) -> Hold | None:
        """Read what is held.  One that cannot be read counts as a roll-back's; in a run directory
        that the agent's lock refuses, there is none."""
        try:
            if self.path.parent == self._run_dir:
                ownership.check_path(self._run_dir)
        except InputError:
            return None
        try:
            ownership.check_path(self.path)
            raw = whole_file.read(self.path, MAX_BYTES)
            self.current = None if raw is None else msgspec.json.decode(raw, type=Hold)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, InputError) as error:
            log.failure("a hold that cannot be read", path=str(self.path), reason=str(error))
            self.current = Hold(what="rollback", who=f"{self.path}, unreadable", at=0.0)
        if self.current is not None:
            log.warning("held", what=self.current.what, reason=self.current.line())
        return self.current

    def write(self, what: Literal["off", "rollback"], who: str) -> None:
        """Hold from now on, before anything is done."""
        made = Hold(what=what, who=who[:200], at=time.time())
        try:
            self.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            ownership.check_path(self.path)
            whole_file.replace(self.path, msgspec.json.encode(made))
            _sync(self.path.parent)
        except OSError as error:
            raise HostccError(
                f"not held, and nothing done: {self.path}: {error.strerror}"
            ) from None
        self.current = made

    def release(self) -> None:
        """Hold no longer, neither now nor after a restart."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise HostccError(f"still held: {self.path}: {error.strerror}") from None
        self.current = None


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
