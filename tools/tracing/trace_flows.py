"""`tools/trace-flows`: TCP connections with their process, device and next hop."""

from __future__ import annotations

import argparse
import ipaddress
import platform
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

from hostcc.cli.common import seconds, size
from hostcc.daemon.jobs.views import endpoint
from hostcc.limits import MAX_CGROUPS
from tools.tracing.bcc_program import Program, octets, require_root, text_of
from tools.tracing.netns_names import Namespaces
from tools.tracing.script import Output, Until, make_parser, ready, run
from tools.tracing.socket_jobs import Jobs, add_job_options, cgroup_ids, job_of, port_keys

POLL_S = 0.1
OPENED, ACCEPTED, FAILED, ENDED = 1, 2, 3, 4
WORDS = {OPENED: "opened", ACCEPTED: "accepted", FAILED: "failed", ENDED: "closed"}
ACCEPT_CALLS = {
    "x86_64": {"ACCEPT_IS_TRACED": 1, "CALL_ACCEPT": 43, "CALL_ACCEPT4": 288},
    "aarch64": {"ACCEPT_IS_TRACED": 1, "CALL_ACCEPT": 202, "CALL_ACCEPT4": 242},
}
"""Numbers of the system calls; the kernel's asm/unistd.h."""
MAX_OPEN = 100_000
"""Connections that are remembered until they close."""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = make_parser(
        "trace-flows",
        "Show which process opens and accepts which TCP connection, and which way it leaves.",
        "tools/trace-flows --job train-a --json",
        "N lines",
        "The way: source port, outgoing device and gateway, which is what ECMP and steering by\n"
        "source port decide about.  All network namespaces; without an agent no job is known.",
    )
    made.add_argument("--no-close", action="store_true", help="only what opens, not what closes")
    made.add_argument(
        "--no-accept",
        action="store_true",
        help="omit the accepting process; its look-up slows every system call a little",
    )
    add_job_options(made)
    return made


class Owners:
    """The job of a socket; asks the agent again when one is unknown."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._strangers: set[int] = set()
        self._learn()

    def _learn(self) -> None:
        self._ids, self._ports = cgroup_ids(self._jobs.all), port_keys(self._jobs.all)

    def job(self, cgroup: int, lport: int, rport: int) -> str | None:
        """Its name, or None."""
        found = job_of(cgroup, lport, rport, self._ids, self._ports)
        # A job is known to the agent before it starts, so a new group is worth a question.
        if found is None and self._jobs.refresh(now=cgroup not in self._strangers):
            self._learn()
            found = job_of(cgroup, lport, rport, self._ids, self._ports)
            if len(self._strangers) >= MAX_CGROUPS:
                self._strangers.clear()
            self._strangers.add(cgroup)
        return found


def trace(args: argparse.Namespace, until: Until, out: Output) -> None:
    """Print until the limit or a signal."""
    require_root()
    jobs = Jobs(args, out, optional=True)
    calls = {} if args.no_accept else ACCEPT_CALLS.get(platform.machine(), {})
    if not calls and not args.no_accept:
        out.note(f"who accepts is not known on {platform.machine()}")
    hooks = ["inet_sock_set_state", *(["sys_exit"] if calls else [])]
    with Program(["common", "flows"], hooks, calls) as program:
        printer = Printer(args, Owners(jobs), jobs, out)
        program.collect("events", "event_type")
        ready(out, until, "connections")
        while not until.over:
            for event in program.poll(min(POLL_S, max(0.0, until.left_s))):
                printer.event(event)


class Printer:
    """Turns events into lines, and remembers connections until they close."""

    def __init__(self, args: argparse.Namespace, owners: Owners, jobs: Jobs, out: Output) -> None:
        self._close = not args.no_close
        self._owners = owners
        self._jobs = jobs
        self._out = out
        self._names = Namespaces()
        self._open: dict[int, dict[str, Any]] = {}

    def event(self, row: Any) -> None:
        """One event of progs/flows.bcc.c."""
        if row.what == ENDED:
            known = self._open.pop(row.id, None)
            if known is None or not self._close:
                return
            record = closed(known, row)
        else:
            record = self._opened(row)
            if not self._jobs.is_wanted(record["job"]):
                return
            if row.what != FAILED and len(self._open) < MAX_OPEN:
                self._open[row.id] = {**record, "at_ns": row.at_ns}
        self._out.result(record, text(record))

    def _opened(self, row: Any) -> dict[str, Any]:
        ends = row.ends
        return {
            "at": round(time.time(), 6),
            "event": WORDS[row.what],
            "job": self._owners.job(row.cgroup, ends.lport, ends.rport),
            "pid": row.pid or None,
            "command": text_of(row.comm) or None,
            "netns": self._names.name(ends.netns),
            "local": endpoint(ends.family, octets(ends.local), ends.lport),
            "remote": endpoint(ends.family, octets(ends.remote), ends.rport),
            "source_port": ends.lport,
            "device": text_of(row.device) or None,
            "ifindex": row.ifindex or None,
            "gateway": gateway(row.gateway_family, octets(row.gateway)),
            "cgroup_id": row.cgroup,
        }


def closed(known: Mapping[str, Any], row: Any) -> dict[str, Any]:
    """The end of a connection whose beginning was seen."""
    record = {key: value for key, value in known.items() if key != "at_ns"}
    return {
        **record,
        "at": round(time.time(), 6),
        "event": WORDS[ENDED],
        "lasted_s": round((row.at_ns - known["at_ns"]) / 1e9, 6),
        "bytes_sent": row.bytes_sent,
        "bytes_received": row.bytes_received,
    }


def gateway(family: int, raw: bytes) -> str | None:
    """The next hop; None when the peer is on the link itself."""
    if family == socket.AF_INET:
        return str(ipaddress.IPv4Address(raw[:4]))
    return str(ipaddress.IPv6Address(raw)) if family == socket.AF_INET6 else None


def text(record: Mapping[str, Any]) -> str:
    """One line for a person."""
    who = f"{record['command']}[{record['pid']}]" if record["pid"] else "?"
    way = f"dev {record['device'] or '?'}"
    if record["gateway"]:
        way += f" via {record['gateway']}"
    line = (
        f"{time.strftime('%H:%M:%S', time.localtime(record['at']))} {record['event']:<8}"
        f" {record['job'] or '-':<16} {who:<22} {record['local']} -> {record['remote']}"
        f"  {way}  netns {record['netns']}"
    )
    if "lasted_s" in record:
        line += (
            f"  after {seconds(record['lasted_s'])}, sent {size(record['bytes_sent'])},"
            f" received {size(record['bytes_received'])}"
        )
    return line


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script; the exit status."""
    return run(parser(), argv, trace)


if __name__ == "__main__":
    raise SystemExit(main())
