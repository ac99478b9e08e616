"""The job of each socket: from the agent's control socket, or as given on the command line."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from hostcc.client import ask, default_socket
from hostcc.config.schema import expand_ports
from hostcc.errors import HostccError, InputError, NoAgentError
from hostcc.limits import JOB_NAME_WORDS, MAX_CGROUPS, MAX_PORTS, is_job_name
from hostcc.system.cgroups import CgroupTree
from tools.tracing.bcc_program import Program
from tools.tracing.script import Output

REFRESH_S = 0.5
REMOTE = 1 << 16
"""Added to a remote port in the table of ports."""


class Parameters(msgspec.Struct, frozen=True):
    """How a job's windows are scaled: `parameters` of hostcc.jobs/1."""

    mode: str
    ratio_scope: str
    shape: str
    slope: float
    intercept: float
    weight: float
    static_weight: float
    table: tuple[float, ...] = ()
    silence_us: int | None = None
    variant: str = ""
    plain_weight: float = 1.0


class TracedJob(msgspec.Struct, frozen=True):
    """A job as hostcc.jobs/1 has it, as far as tracing needs it."""

    name: str
    slot: int | None = None
    cgroup: str | None = None
    local_ports: tuple[int | str, ...] = ()
    remote_ports: tuple[int | str, ...] = ()
    parameters: Parameters | None = None


def decode_jobs(answer: Mapping[str, Any]) -> list[TracedJob]:
    """The jobs in an answer of the agent.  Raises HostccError."""
    try:
        return msgspec.convert(answer["jobs"], list[TracedJob])
    except (msgspec.ValidationError, KeyError) as error:
        raise HostccError(f"the agent's list of jobs: expected hostcc.jobs/1: {error}") from None


def add_job_options(parser: argparse.ArgumentParser) -> None:
    """Options that say which jobs there are and which are wanted."""
    group = parser.add_argument_group("jobs")
    group.add_argument(
        "--socket",
        type=Path,
        default=default_socket(),
        metavar="PATH",
        help="the agent's control socket, which names the jobs (default: %(default)s)",
    )
    group.add_argument(
        "--job", action="append", default=[], metavar="NAME", help="only this job; may be repeated"
    )
    group.add_argument(
        "--port",
        action="append",
        default=[],
        metavar="NAME=PORT[-PORT]",
        help="without an agent: sockets with this port at either end are job NAME's",
    )
    group.add_argument(
        "--cgroup",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="without an agent: sockets made in this cgroup v2 directory or below are job NAME's",
    )


def given_jobs(ports: Iterable[str], cgroups: Iterable[str]) -> list[TracedJob]:
    """Jobs as --port and --cgroup define them.  Raises InputError."""
    jobs: list[TracedJob] = []
    for text in ports:
        name, _, span = text.partition("=")
        low, _, high = span.partition("-")
        high = high or low
        if not (low.isdecimal() and high.isdecimal() and 1 <= int(low) <= int(high) <= 65535):
            raise InputError(f'--port: expected NAME=PORT or NAME=LOW-HIGH, got "{text[:80]}"')
        both = (f"{low}-{high}",)
        jobs.append(TracedJob(_name(name, "--port"), local_ports=both, remote_ports=both))
    for text in cgroups:
        name, _, path = text.partition("=")
        if not (Path(path) / "cgroup.procs").exists():
            raise InputError(f'--cgroup: expected NAME=DIRECTORY of cgroup v2, got "{text[:80]}"')
        jobs.append(TracedJob(_name(name, "--cgroup"), cgroup=path))
    return jobs


def _name(text: str, option: str) -> str:
    if not is_job_name(text):
        raise InputError(f'{option}: expected a name of {JOB_NAME_WORDS}, got "{text[:80]}"')
    return text


class Jobs:
    """The jobs now, numbered from 1 in order of appearance; numbers are never used again.

    Raises NoAgentError at first if nobody answers and nothing was given, unless `optional`.
    """

    def __init__(self, args: argparse.Namespace, out: Output, optional: bool = False) -> None:
        for name in args.job:
            _name(name, "--job")
        self._socket: Path = args.socket
        self._out = out
        self._wanted = frozenset(args.job)
        self._given = given_jobs(args.port, args.cgroup)
        self._numbers: dict[str, int] = {}
        self._asked = 0.0
        self._alone = False
        self.all: list[TracedJob] = self._given
        if self._given:
            return
        try:
            self.all = decode_jobs(ask(self._socket, "jobs"))
        except NoAgentError as error:
            if not optional:
                raise NoAgentError(f"{error}, or name jobs with --port or --cgroup") from None
            self._note_absence(error)

    @property
    def from_agent(self) -> bool:
        """Whether an agent names the jobs."""
        return not self._given

    def refresh(self, now: bool = False) -> bool:
        """Ask the agent again, at most every REFRESH_S unless `now`; whether it was asked."""
        at = time.monotonic()
        if self._given or (at - self._asked < REFRESH_S and not (now and not self._alone)):
            return False
        self._asked = at
        try:
            self.all = decode_jobs(ask(self._socket, "jobs", timeout_s=2.0))
            self._alone = False
        except HostccError as error:
            self._note_absence(error)
        return True

    def _note_absence(self, error: HostccError) -> None:
        if not self._alone:
            self._out.note(f"{error}; going on with the jobs known so far")
        self._alone = True

    def wanted(self) -> list[TracedJob]:
        """The jobs to be shown."""
        return [job for job in self.all if not self._wanted or job.name in self._wanted]

    def is_wanted(self, name: str | None) -> bool:
        """Whether something of this job, or of none, is to be shown."""
        return not self._wanted or name in self._wanted

    def number(self, name: str) -> int:
        """The number of a job."""
        return self._numbers.setdefault(name, len(self._numbers) + 1)

    def by_number(self) -> dict[int, TracedJob]:
        """The jobs to be shown, by number."""
        return {self.number(job.name): job for job in self.wanted()}


def cgroup_ids(jobs: Iterable[TracedJob]) -> dict[int, str]:
    """cgroup id to job, nested cgroups included, at most MAX_CGROUPS."""
    found: dict[int, str] = {}
    for job in jobs:
        if job.cgroup:
            path = Path(job.cgroup)
            found.update(dict.fromkeys(CgroupTree(path).ids(path), job.name))
    return dict(list(found.items())[:MAX_CGROUPS])


def port_keys(jobs: Iterable[TracedJob]) -> dict[int, str]:
    """Port, REMOTE added for remote ones, to job; at most MAX_PORTS of each kind."""
    found: dict[int, str] = {}
    for job in jobs:
        for offset, ports in ((0, job.local_ports), (REMOTE, job.remote_ports)):
            for span in expand_ports(ports):
                for port in span:
                    found.setdefault(port + offset, job.name)
    return dict(list(found.items())[: 2 * MAX_PORTS])


def job_of(cgroup: int, lport: int, rport: int, ids: Mapping[int, str],
           ports: Mapping[int, str]) -> str | None:  # fmt: skip
    """The job of a socket, by cgroup and then by port, as the agent decides it."""
    return ids.get(cgroup) or ports.get(lport) or ports.get(rport + REMOTE)


def publish(jobs: Jobs, program: Program) -> None:
    """Tell the program of progs/jobs.bcc.c which sockets are whose."""
    wanted = jobs.wanted()
    for name, entries in (("job_cgroups", cgroup_ids(wanted)), ("job_ports", port_keys(wanted))):
        table = program.table(name)
        values = {key: jobs.number(job) for key, job in entries.items()}
        known = {key.value: value.value for key, value in table.items()}
        for key, value in values.items():
            if known.get(key) != value:
                table[table.Key(key)] = table.Leaf(value)
        for key in known.keys() - values.keys():
            del table[table.Key(key)]
