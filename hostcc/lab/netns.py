"""Network namespaces: create, configure in batches, enter, and start processes inside.

Configuration goes through `ip -batch`: it is atomic enough, fast (about 10 ms a namespace),
and what failed is reported in words that an administrator knows.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

from hostcc.bpf.loader.netns import CLONE_NEWNET, in_netns
from hostcc.lab.errors import LabError

PR_SET_PDEATHSIG = 1
NAMESPACE_DIRECTORY = Path("/run/netns")

Result = TypeVar("Result")
_libc = ctypes.CDLL(None, use_errno=True)


def batch(tool: str, lines: Sequence[str], namespace: str | None = None, family: str = "") -> None:
    """Run `ip` or `tc` commands in one process; raises LabError with the tool's words.

    `family` is `-4` or `-6` for commands whose arguments do not tell it.
    """
    if not lines:
        return
    where = ["-n", namespace] if namespace else []
    done = subprocess.run(
        [tool, *where, *family.split(), "-batch", "-"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        words = " ".join(done.stderr.split()) or f"exit status {done.returncode}"
        raise LabError(f"{tool} in {namespace or 'the host'}: {words}")


def create(namespaces: Sequence[str]) -> None:
    """Create named namespaces with the loopback device up."""
    batch("ip", [f"netns add {name}" for name in namespaces])
    for name in namespaces:
        batch("ip", ["link set lo up"], name)


def exists(namespace: str) -> bool:
    """Whether a namespace of that name is there."""
    return (NAMESPACE_DIRECTORY / namespace).exists()


def remove(namespaces: Sequence[str]) -> None:
    """Remove those of the namespaces that exist."""
    there = [name for name in namespaces if exists(name)]
    batch("ip", [f"netns del {name}" for name in there])


def inside(namespace: str, function: Callable[[], Result]) -> Result:
    """Call a function in the namespace, in a thread of its own; raises what it raises."""
    return in_netns(NAMESPACE_DIRECTORY / namespace, function)


def set_sysctls(namespace: str, values: Mapping[str, str]) -> list[str]:
    """Write sysctls (paths below /proc/sys) in a namespace; returns those it does not have."""

    def write() -> list[str]:
        missing = []
        for key, value in values.items():
            path = Path("/proc/sys") / key
            if not path.exists():
                missing.append(key)
                continue
            try:
                path.write_text(value)
            except OSError as error:
                name = key.replace("/", ".")
                raise LabError(f"{name} = {value}: {error.strerror}") from error
        return missing

    return inside(namespace, write)


def spawn(
    command: Sequence[str],
    *,
    namespace: str,
    cgroup: Path | None,
    nice: int = 0,
    env: Mapping[str, str] | None = None,
    stdin: int | IO[Any] | None = subprocess.DEVNULL,
    stdout: int | IO[Any] | None = None,
    stderr: int | IO[Any] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a command in a namespace and a cgroup; it dies with the calling process.

    Call it from the main thread: the kernel ties the death signal to the parent *thread*.
    """
    process: subprocess.Popen[bytes] | None = None
    with (NAMESPACE_DIRECTORY / namespace).open("rb") as netns:
        fd = netns.fileno()
        procs = os.open(cgroup / "cgroup.procs", os.O_WRONLY) if cgroup else -1

        def prepare() -> None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            _enter(fd)
            if procs >= 0:
                os.write(procs, b"0")
            if nice:
                os.setpriority(os.PRIO_PROCESS, 0, nice)
            _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

        try:
            # What a signal's handler raises while Python forks is lost: signals wait.
            with signals_waiting() as mask:
                process = subprocess.Popen(
                    command,
                    env=None if env is None else dict(env),
                    preexec_fn=prepare,  # noqa: PLW1509 - only system calls, no lock is taken
                    process_group=0,  # Ctrl-C is for the lab, which then ends all in order
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                )
        except (OSError, subprocess.SubprocessError) as error:
            raise LabError(f"{command[0]}: {error}") from error
        except BaseException:
            if process is not None:
                process.kill()
                process.wait()
            raise
        finally:
            if procs >= 0:
                os.close(procs)
    return process


@contextmanager
def signals_waiting() -> Iterator[set[int]]:
    """Within the block, signals that end a lab wait; gives the mask that was in force before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _enter(fd: int) -> None:
    if _libc.setns(fd, CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
