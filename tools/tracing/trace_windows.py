"""`tools/trace-windows`: window, bytes_ratio and F of a job's sockets."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hostcc.bpf.loader.btf import Btf
from hostcc.bpf.loader.errors import BpfError
from hostcc.bpf.loader.records import DType
from hostcc.cli.common import seconds
from hostcc.client import ask
from hostcc.daemon.jobs.views import DIRECTIONS, STANCES, UNLIMITED, UNMEASURED, endpoint
from hostcc.errors import HostccError
from tools.tracing.agent_state import CA_PRIVATE, JobStates, object_types
from tools.tracing.bcc_program import Program, octets, text_of
from tools.tracing.netns_names import Namespaces
from tools.tracing.scaling import Progress, bytes_ratio, progress_of, scale
from tools.tracing.script import Output, Until, make_parser, positive_seconds, ready, run
from tools.tracing.socket_jobs import Jobs, TracedJob, add_job_options, publish

HEADING = (
    f"{'TIME':>9}  {'JOB':<16} {'LOCAL':<24} {'REMOTE':<24} {'CONTROL':<14} {'CWND':>6}"
    f" {'SSTHR':>6} {'FLIGHT':>6} {'RTT':>8} {'RATIO':>6} {'F':>6} STANCE"
)
INFINITE_SSTHRESH = 0x7FFFFFFF
"""TCP_INFINITE_SSTHRESH: no loss so far."""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = make_parser(
        "trace-windows",
        "Sample the congestion window, bytes_ratio and F of every socket of a job.",
        "tools/trace-windows --job train-a --interval 0.01 --duration 5 --json > windows.jsonl",
        "N samples, of all sockets together",
        "Windows are those at the latest segment that arrived; bytes_ratio and F are the agent's\n"
        "at the moment of the sample, and unknown without an agent.",
    )
    made.add_argument(
        "--interval",
        type=positive_seconds,
        default=0.1,
        metavar="S",
        help="time between samples (default: %(default)g)",
    )
    made.add_argument(
        "--idle",
        action="store_true",
        help="also sockets that received nothing since the last sample",
    )
    add_job_options(made)
    return made


@dataclass(frozen=True)
class WindowScaling:
    """Scaling of a socket's window: mode, stance, bytes_ratio and F."""

    mode: str | None = None
    stance: str | None = None
    ratio: float | None = None
    f: float | None = None


class Agent:
    """The jobs' iterations as the agent's programs have them, for as long as the agent lives."""

    def __init__(self, args: argparse.Namespace, types: Btf) -> None:
        self._socket = args.socket
        self._types = types
        self._pid = 0
        self._states: JobStates | None = None
        try:
            self.private: DType | None = types.named_dtype(CA_PRIVATE)
        except KeyError:
            self.private = None
        self._bursts_q10 = types.enums()["HCC_BURSTS_Q10"]

    def refresh(self) -> None:
        """Find the maps of the agent that answers now.  Raises HostccError."""
        answer = ask(self._socket, "status", timeout_s=2.0)["agent"]
        pid = int(answer["pid"])
        if pid != self._pid and answer["state"] == "active":
            self.close()
            self._states = JobStates(pid, self._types)
            self._pid = pid

    def close(self) -> None:
        """Close the maps."""
        if self._states is not None:
            self._states.close()
        self._states, self._pid = None, 0

    def scaled(self, job: TracedJob, private: bytes, ours: bool) -> WindowScaling:
        """What scales a socket of `job` now; `ours`: it runs one of hostcc's controls."""
        parameters = job.parameters
        if self._states is None or job.slot is None or parameters is None:
            return WindowScaling()
        state = self._states.read(job.slot)
        if state is None:
            return WindowScaling(parameters.mode)
        stance, direction = STANCES[int(state["stance"])], DIRECTIONS[int(state["direction"])]
        whole = Progress(int(state["iteration_bytes"]), int(state["total_bytes"]))
        own = flow_progress(self.private, private) if ours else None
        counts = progress_of(parameters.ratio_scope, whole, own)
        ratio = None if counts is None else bytes_ratio(counts)
        bursts = int(state["bursts_q10"]) >= self._bursts_q10
        f = scale(parameters, ratio, stance, direction, bursts) if ours else 1.0
        return WindowScaling(parameters.mode, stance, ratio, f)


def flow_progress(form: DType | None, private: bytes) -> Progress | None:
    """A socket's own progress out of icsk_ca_priv; None where its layout is not known."""
    if form is None:
        return None
    flow = np.frombuffer(private, form, count=1)[0]["flow"]
    return Progress(int(flow["flow_kib"]) << 10, int(flow["total_kib"]) << 10)


def trace(args: argparse.Namespace, until: Until, out: Output) -> None:
    """Print until the limit or a signal."""
    jobs = Jobs(args, out)
    names = Namespaces()
    agent = _agent(args, jobs, out)
    parts = ["common", "jobs", "windows"]
    with Program(parts, ["tcp_probe", "inet_sock_set_state"]) as program:
        publish(jobs, program)
        ready(out, until, "the jobs' windows")
        out.heading(HEADING)
        since_ns = 0
        for elapsed in until.ticks(args.interval):
            if jobs.refresh():
                publish(jobs, program)
                if agent:
                    _refresh(agent, out)
            now_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            known = jobs.by_number()
            for key, row in program.rows("windows"):
                if (job := known.get(row.job)) is None or (row.at_ns < since_ns and not args.idle):
                    continue
                ours = text_of(row.control).startswith("hcc_")
                scaled = agent.scaled(job, octets(row.priv), ours) if agent else WindowScaling()
                record = sample(job, key.value, row, scaled, now_ns, names)
                out.result(record, text(record, elapsed))
            since_ns = now_ns
    if agent:
        agent.close()


def _agent(args: argparse.Namespace, jobs: Jobs, out: Output) -> Agent | None:
    if not jobs.from_agent:
        return None
    try:
        agent = Agent(args, object_types())
        _refresh(agent, out)
    except BpfError as error:
        out.note(f"bytes_ratio and F are not known: {error}")
        return None
    return agent


def _refresh(agent: Agent, out: Output) -> None:
    try:
        agent.refresh()
    except (HostccError, BpfError) as error:
        agent.close()
        out.note_once(f"bytes_ratio and F are not known: {error}")


def sample(
    job: TracedJob, key: int, row: Any, scaled: WindowScaling, now_ns: int, names: Namespaces
) -> dict[str, Any]:
    """One socket, one moment."""
    ends = row.ends
    least, pacing, ssthresh = row.min_rtt_us, row.pacing, row.ssthresh
    return {
        "at": round(time.time(), 6),
        "job": job.name,
        "socket": f"{key:x}",
        "netns": names.name(ends.netns),
        "local": endpoint(ends.family, octets(ends.local), ends.lport),
        "remote": endpoint(ends.family, octets(ends.remote), ends.rport),
        "congestion_control": text_of(row.control),
        "cwnd_packets": row.cwnd,
        "ssthresh_packets": None if ssthresh >= INFINITE_SSTHRESH else ssthresh,
        "inflight_packets": row.inflight,
        "mss_bytes": row.mss,
        "srtt_us": row.srtt_us or None,
        "min_rtt_us": None if least == UNMEASURED else least,
        "pacing_bytes_per_s": None if pacing >= UNLIMITED else pacing,
        "bytes_acked": row.bytes_acked,
        "age_s": round(max(0, now_ns - row.at_ns) / 1e9, 6),
        "mode": scaled.mode,
        "stance": scaled.stance,
        "bytes_ratio": None if scaled.ratio is None else round(scaled.ratio, 4),
        "f": None if scaled.f is None else round(scaled.f, 4),
    }


def text(record: dict[str, Any], elapsed_s: float) -> str:
    """One line for a person."""
    srtt = record["srtt_us"]
    return (
        f"{elapsed_s:9.3f}  {record['job']:<16} {record['local']:<24} {record['remote']:<24}"
        f" {record['congestion_control']:<14} {record['cwnd_packets']:>6}"
        f" {_dash(record['ssthresh_packets']):>6} {record['inflight_packets']:>6}"
        f" {seconds(srtt / 1e6 if srtt else None):>8} {_dash(record['bytes_ratio'], 3):>6}"
        f" {_dash(record['f'], 3):>6} {record['stance'] or '-'}"
    )


def _dash(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script; the exit status."""
    return run(parser(), argv, trace)


if __name__ == "__main__":
    raise SystemExit(main())
