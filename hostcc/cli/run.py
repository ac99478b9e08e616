"""`hostcc run --job NAME -- CMD`: CMD and its children become part of a job.

The process enters the job's cgroup and then becomes CMD, so signals, the terminal and
the exit status are CMD's own.  Whatever goes wrong on the way, CMD runs.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

from hostcc.cli.common import Subparsers, add_parser, add_socket_option, number_of
from hostcc.client import ask
from hostcc.errors import HostccError, InputError, one_line
from hostcc.foreign import say
from hostcc.limits import (
    BYTES_PER_ITERATION_MAX,
    FLOP_MAX,
    JOB_NAME_WORDS,
    WEIGHT_MAX,
    WEIGHT_MIN,
    is_job_name,
)

PATIENCE_S = 5.0
"""How long a job waits for the agent before it runs without, seconds."""
NOT_EXECUTABLE, NOT_FOUND = 126, 127
"""What shells, env(1) and nice(1) return, too."""
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = add_parser(subparsers, "run", "run a command as part of a job")
    parser.usage = (
        "hostcc run --job NAME [--weight W] [--bytes-per-iteration N] [--flops N] [--mark]\n"
        "                  [--rdma] [--socket PATH] -- CMD ..."
    )
    parser.epilog = (
        "Jobs of users other than root are called uidN:NAME.  A process of a job of Slurm or\n"
        "Kubernetes stays in its cgroup, and that job is meant (docs/run-jobs.md).\n"
        "Without an agent the command runs all the same, after a warning.  The exit status is\n"
        "the command's; 127 if there is no such command, 126 if it cannot be executed."
    )
    parser.add_argument("--job", required=True, metavar="NAME", help=JOB_NAME_WORDS)
    parser.add_argument(
        "--weight",
        metavar="W",
        help=f"the job's share against others, {WEIGHT_MIN:g} to {WEIGHT_MAX:g} (default: 1)",
    )
    parser.add_argument(
        "--bytes-per-iteration",
        metavar="N",
        help="bytes that this host sends in one iteration, like 250M (default: learned)",
    )
    parser.add_argument(
        "--flops",
        metavar="N",
        help="FLOP of one iteration on this host's GPUs, like 2.5e15 (default: measured)",
    )
    parser.add_argument(
        "--mark",
        action="store_true",
        help="take the steps of PyTorch's optimiser as iteration boundaries",
    )
    parser.add_argument(
        "--rdma",
        action="store_true",
        help="let the agent choose path, class and PCIe turns of its RDMA (docs/internals/shim.md)",
    )
    add_socket_option(parser)
    parser.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="CMD", help="and its arguments"
    )
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Enter the job and become the command; returns only when that failed."""
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise InputError("expected a command after --, got none")
    if not is_job_name(args.job):
        raise InputError(f'--job: expected {JOB_NAME_WORDS}, got "{args.job[:80]}"')
    wishes = {
        "weight": parse_weight(args.weight),
        "bytes_per_iteration": parse_bytes(args.bytes_per_iteration),
        "flops": parse_flops(args.flops),
    }
    told: Mapping[str, str] = {}
    job, given = args.job, {"rdma": True, "marks": True}
    try:
        answer = enter(args.socket, args.job, wishes)
        called = answer.get("job")
        job = called if isinstance(called, str) and is_job_name(called) else job
        if answer.get("marked"):
            warn(f"part of job {job}, as the cgroup that it is in: it stays there")
        os.environ["HOSTCC_JOB"] = job
        if answer.get("marks"):
            os.environ.setdefault("HOSTCC_MARK_SOCKET", str(answer["marks"]))
        given = given_to(args, answer.get("refused"))
        if args.mark and given["marks"]:
            mark_steps(os.environ)
        told = answer["rdma"] if isinstance(answer.get("rdma"), dict) else {}
    except HostccError as error:
        warn(f"{error}: running {one_line(command[0])} outside of job {args.job}")
    if args.rdma and given["rdma"]:
        prepare_rdma(os.environ, job, told)
    return become(command)


def given_to(args: argparse.Namespace, refused: object) -> dict[str, bool]:
    """Whether the administrator gives users' jobs what is asked for; warns of what not."""
    why = refused if isinstance(refused, dict) else {}
    for what, option in (("rdma", "--rdma"), ("marks", "--mark")):
        if what in why and getattr(args, option[2:]):
            warn(f"without {option}: {why[what]}")
    return {what: what not in why for what in ("rdma", "marks")}


def prepare_rdma(environ: MutableMapping[str, str], job: str, told: Mapping[str, str]) -> None:
    """Bring the transport shim and NCCL's plugin into the job; `told`: where the agent's memory is.

    Without an agent they do nothing until there is one.
    """
    from hostcc.verbs import inject

    try:
        inject.check()
    except HostccError as error:
        warn(f"{error}: its RDMA runs as without --rdma")
        return
    environ.update(inject.environment(job, environ, told))


def mark_steps(environ: MutableMapping[str, str]) -> None:
    """Have every Python below mark the steps of PyTorch's optimiser (hostcc.injob.torch_hook)."""
    from hostcc.injob.torch_hook import site_directory

    site = str(site_directory())
    before = environ.get("PYTHONPATH")
    environ["PYTHONPATH"] = site + (os.pathsep + before if before else "")
    environ["HOSTCC_MARK"] = "1"


def enter(path: Path, job: str, wishes: Mapping[str, float | int | None]) -> dict[str, Any]:
    """Join the job's cgroup, as made by the agent, whose answer this is.  Raises HostccError.

    The agent moves us, because `ip netns exec` and containers hide the cgroup tree.  Where
    it cannot name us (another PID namespace) we go ourselves.
    """
    answer = ask(path, "register", PATIENCE_S, join=True, job=job, **wishes)
    if answer.get("joined") or answer.get("marked"):
        return answer
    group = Path(str(answer.get("cgroup", "")))
    try:
        # "0" is the writer itself, whatever PID namespace it lives in.
        (group / "cgroup.procs").write_text("0")
    except OSError as error:
        raise HostccError(f"cannot enter {group}: {error.strerror}") from None
    return answer


def become(command: list[str]) -> int:
    """Replace this process; the exit status if that is impossible."""
    # Python ignores these two, and a command inherits what is ignored.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvp(command[0], command)  # noqa: S606 - running it is the purpose
    except FileNotFoundError:
        warn(f"{one_line(command[0])}: command not found")
        return NOT_FOUND
    except (OSError, ValueError) as error:
        warn(f"{one_line(command[0])}: {getattr(error, 'strerror', None) or error}")
        return NOT_EXECUTABLE


def parse_weight(text: str | None) -> float | None:
    """A weight, or None for none.  Raises InputError."""
    return None if text is None else number_of(text, "--weight", "a number", WEIGHT_MIN, WEIGHT_MAX)


def parse_bytes(text: str | None) -> int | None:
    """A number of bytes with an optional k, M, G, Ki, Mi or Gi.  Raises InputError."""
    if text is None:
        return None
    match = re.fullmatch(r"([0-9]{1,19})(k|M|G|Ki|Mi|Gi)?B?", text, re.ASCII)
    total = int(match[1]) * _UNITS[match[2] or ""] if match else 0
    if not 1 <= total <= BYTES_PER_ITERATION_MAX:
        raise InputError(
            f"--bytes-per-iteration: expected a whole number of bytes from 1 to 2^60, "
            f'k, M, G, Ki, Mi or Gi may follow, got "{text[:40]}"'
        )
    return total


def parse_flops(text: str | None) -> float | None:
    """FLOP of an iteration, or None for none.  Raises InputError."""
    return None if text is None else number_of(text, "--flops", "a number", 1, FLOP_MAX)


def warn(text: str) -> None:
    """One line on standard error; never a reason for the command not to run."""
    try:
        say(f"hostcc run: {text}", file=sys.stderr, flush=True)
    except OSError:
        return
