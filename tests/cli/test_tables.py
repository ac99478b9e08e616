"""What people read."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import convert

from hostcc.answers.flows import Flows
from hostcc.answers.gossip import Gossip, Peers
from hostcc.answers.host import Changes, Sharing, Verification
from hostcc.answers.jobs import JobRow, Jobs, Parameters
from hostcc.answers.status import AgentStatus, JobStatus, Status
from hostcc.cli import changes, common, doctor, dryrun, flows, jobs, peers, status, unfair, verify
from hostcc.cli.findings import Finding, State

JOB: dict[str, Any] = {
    "name": "train[bold]",
    "mode": "mltcp",
    "variant": "hostcc",
    "congestion_control": "hcc_ab12_host",
    "weight": 2.0,
    "static_weight": None,
    "processes": 3,
    "flows": 8,
    "bytes_acked": 12_300_000_000,
    "iterations": 41,
    "bytes_per_iteration": 250_000_000,
    "period_s": 0.2404,
    "communication_s": 0.0998,
    "best_communication_s": 0.09,
    "yielded_s": 0.0,
    "stance": "scaled",
    "direction": "one-way",
    "plain_reason": None,
    "iterations_by_bytes": None,
    "recent": {"iterations": 40, "left_out": 1, "mean_period_s": 0.24, "p99_period_s": 0.2512},
}
AGENT: dict[str, Any] = {
    "version": "0.1.0",
    "pid": 7,
    "instance": "host",
    "state": "active",
    "reason": None,
    "mode": "mltcp",
    "uptime_s": 3700.0,
    "default_congestion_control": "bbr",
    "cpu_s": 1.5,
    "resident_bytes": 42_000_000,
    "loop": {"longest_stall_s": 0.0123, "failing": {}, "failures": 0},
}


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_units() -> None:
    assert [common.seconds(v) for v in (None, 0.0, 12e-6, 0.24, 1.0, 99.96)] == [
        "-",
        "0 s",
        "12.0 us",
        "240 ms",
        "1.00 s",
        "100 s",
    ]
    assert [common.size(v) for v in (None, 0, 999, 1e3, 12.345e6, 5e12)] == [
        "-",
        "0 B",
        "999 B",
        "1.00 kB",
        "12.3 MB",
        "5.00 TB",
    ]
    assert common.seconds(858.0) == "14 min 18 s"
    assert [common.duration(v) for v in (5.9, 65, 3700, 90000)] == [
        "5 s",
        "1 min 5 s",
        "1 h 1 min",
        "1 d 1 h",
    ]


def test_status(capsys: pytest.CaptureFixture[str]) -> None:
    note = {"at": 0.0, "target": "job a", "text": "somebody edited it"}
    common.emit(status.screen(convert({"agent": AGENT, "jobs": [JOB], "notes": [note]}, Status)))
    out = lines(capsys)
    assert out[0] == "agent host (hostcc 0.1.0, pid 7), up 1 h 1 min: mode mltcp"
    words = next(line for line in out if line.startswith("train")).split()
    assert words[:6] == ["train[bold]", "hcc_ab12_host", "scaled", "2", "3", "8"]
    assert " ".join(words[6:]) == "41 240 ms 251 ms of 40 99.8 ms 250 MB 12.3 GB"
    assert out[-1] == "note: job a: somebody edited it"
    common.emit(status.screen(convert({"agent": AGENT, "jobs": [], "notes": []}, Status)))
    assert "hostcc run" in lines(capsys)[-1]
    observing = {**AGENT, "state": "observing", "reason": "rolled back"}
    common.emit(status.screen(convert({"agent": observing, "jobs": [], "notes": []}, Status)))
    assert lines(capsys)[0].endswith("observing only: rolled back")
    for reason, shown in (("rolled back", "rolled back, held"), ("held", "held")):
        held = {**observing, "reason": reason, "held": "held"}
        common.emit(status.screen(convert({"agent": held, "jobs": [], "notes": []}, Status)))
        assert lines(capsys)[0].endswith(f"observing only: {shown}")


def test_status_says_why_jobs_are_plain(capsys: pytest.CaptureFixture[str]) -> None:
    why = "a competitor does not yield; tried again later"
    jobs = [{**JOB, "name": f"j{n:02}", "plain_reason": why} for n in range(10)]
    jobs += [{**JOB, "name": "off", "mode": "off", "plain_reason": "mode off"}]
    jobs += [{**JOB, "name": "ring", "direction": "two-way", "plain_reason": "it receives"}]
    common.emit(status.screen(convert({"agent": AGENT, "jobs": jobs, "notes": []}, Status)))
    out = lines(capsys)
    stances = {line.split()[0]: line.split()[2] for line in out if line.startswith(("j0", "ring"))}
    assert stances["ring"] == "two-way"
    assert stances["j00"] == "plain"
    told = [line for line in out if line.startswith("plain, ")]
    assert " ".join(told).startswith(f"plain, {why}: j00, j01, j02, j03, j04, j05, j06, j07 and 2")
    assert told[-1] == "plain, it receives: ring"


def test_status_shows_how_the_loop_fares() -> None:
    assert status.heading(convert(AGENT, AgentStatus))[1].endswith(", longest stall 12.3 ms")
    failing = {"longest_stall_s": None, "failing": {"sweep": "KeyError('x')"}, "failures": 3}
    _, usage, said = status.heading(convert({**AGENT, "loop": failing}, AgentStatus))
    assert "stall" not in usage  # nobody has timed it
    assert said == "FAILING: sweep: KeyError('x')"


GOSSIP: dict[str, Any] = {
    "name": "a",
    "listen": "0.0.0.0:7471",
    "insecure": False,
    "members": {"dead": 1, "alive": 2},
    "held": "ab" * 16,
    "active": "ab" * 16,
    "agreed": True,
    "missing": [],
    "unpublished": {},
    "troubles": [],
    "disagreements": [],
}
UNREACHED = {"reason": "unreachable", "who": "seed b@10.0.0.2:7471", "text": "no answer (timeout)"}
DISAGREEMENT: dict[str, Any] = {
    "option": "plan.levels",
    "here": "4",
    "there": [
        {"value": "8", "members": ["b", "c"], "count": 5},
        {"value": "9", "members": ["z"], "count": 1},
    ],
}
DIFFERS = "plan.levels differs: 4 here, 8 on b, c and 3 more; 9 on z; hosts agree only while "
DIFFERS += "their plans are the same"


def test_status_shows_agreement_and_in_red_that_there_are_no_keys() -> None:
    (line,) = status.gossip(convert(GOSSIP, Gossip))
    assert line.plain == "gossip as a: 2 alive, 1 dead; follows view abababababab, agreed"
    waiting = {
        **GOSSIP,
        "insecure": True,
        "members": {},
        "active": "",
        "missing": [f"m{number}" for number in range(9)],
        "unpublished": {"j": "too much"},
    }
    line, warning, job = status.gossip(convert(waiting, Gossip))
    assert line.plain.startswith("gossip as a: nobody else; follows no view yet; holds view abab")
    assert line.plain.endswith("; waits for m0, m1, m2, m3, m4, m5, m6, m7, ...")
    assert warning.plain.startswith("gossip is INSECURE: no keys, whoever reaches 0.0.0.0:7471")
    assert warning.style == "bold red"
    assert job.plain == "gossip: job j: too much"
    assert status.gossip(None) == []
    _, differs = status.gossip(convert({**GOSSIP, "disagreements": [DISAGREEMENT]}, Gossip))
    assert differs.plain == f"gossip: {DIFFERS}"
    alone, why = status.gossip(
        convert({**GOSSIP, "members": {"dead": 1}, "troubles": [UNREACHED]}, Gossip)
    )
    assert alone.plain == "gossip as a: 1 dead; follows view abababababab, agreed with nobody"
    assert why.plain == "gossip: seed b@10.0.0.2:7471: no answer (timeout)"
    process = {"pid": 7, "restarts": 2, "reason": "was ended by SIGABRT"}
    _, again = status.gossip(convert({**GOSSIP, "process": process}, Gossip))
    assert again.plain == (
        "gossip: its process was started again 2 times; the last one was ended by SIGABRT"
    )


def test_peers(capsys: pytest.CaptureFixture[str]) -> None:
    known = {
        "name": "b",
        "address": "10.0.0.2:7471",
        "state": "alive",
        "link": "dialled",
        "rtt_s": 0.0004,
        "clock_error_s": 9e-5,
        "version": "0.1.0",
        "held": "cd" * 16,
        "active": "cd" * 16,
        "heard_s": 0.31,
        "shut_out": False,
        "plan": "ef" * 16,
        "differs": ["plan.levels"],
    }
    silent: dict[str, Any] = {
        "rtt_s": None,
        "clock_error_s": None,
        "version": "",
        "held": "",
        "plan": "",
        "differs": [],
        "heard_s": None,
        "address": "",
    }
    unknown = {**known, **silent, "name": "c", "state": "dead", "link": "none", "shut_out": True}
    own = {"name": "a", "held": "ab" * 16, "key": "", "troubles": [], "disagreements": []}
    peers.render(convert({**own, "peers": [known, unknown]}, Peers))
    out = [" ".join(line.split()) for line in lines(capsys)]
    assert out[0] == "a (this host) holds view abababababab, plan -"
    assert out[2] == (
        "b alive 400 us 90.0 us 0.1.0 cdcdcdcdcdcd efefefefefef plan.levels 310 ms ago dialled "
        "10.0.0.2:7471"
    )
    assert out[3] == "c dead, shut out - - - - - - never none -"
    told = {"key": "0123456789abcdef", "troubles": [UNREACHED], "disagreements": [DISAGREEMENT]}
    peers.render(convert({**own, **told, "peers": []}, Peers))
    assert lines(capsys) == [
        "a (this host) holds view abababababab, plan -, its key is 0123456789abcdef",
        "no other members are known",
        "seed b@10.0.0.2:7471: no answer (timeout)",
        DIFFERS,
    ]


def test_status_of_other_modes() -> None:
    off = {**JOB, "mode": "off", "congestion_control": None}
    assert status.job_row(convert(off, JobStatus))[1:4] == ("default", "off", "2")
    static = {**JOB, "mode": "static", "static_weight": 0.5}
    assert status.job_row(convert(static, JobStatus))[2:4] == ("static", "0.5")


def test_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    given = {
        "variant": "hostcc",
        "mode": "mltcp",
        "ratio_scope": "job",
        "shape": "linear",
        "slope": 1.75,
        "intercept": 0.25,
        "table": [],
        "weight": 1.0,
        "static_weight": 1.0,
        "bytes_per_iteration": None,
    }
    job = {
        "name": "a",
        "cgroup": "/x",
        "pids": list(range(20)),
        "local_ports": ["5000-5010", 7],
        "remote_ports": [],
        "parameters": given,
    }
    jobs.render(convert({"jobs": [job]}, Jobs))
    out = lines(capsys)[1]
    assert "1.75 r + 0.25" in out
    assert "learned" in out
    assert "cgroup; local ports 5000-5010,7" in out
    assert "0 1 2 3 4 5 6 7 ..." in out
    assert jobs.shape(convert({**given, "shape": "exponential"}, Parameters)) == "0.25 * 2^(1.75 r)"
    assert (
        jobs.shape(convert({**given, "shape": "table", "table": [1, 2]}, Parameters))
        == "table of 2"
    )
    assert jobs.row(convert({**job, "parameters": None, "cgroup": None}, JobRow))[1] == "-"
    jobs.render(convert({"jobs": []}, Jobs))
    assert lines(capsys) == ["no jobs"]


def test_flows(capsys: pytest.CaptureFixture[str]) -> None:
    flow = {
        "job": "a",
        "local": "198.18.0.1:40000",
        "remote": "198.18.0.2:5000",
        "state": "established",
    }
    full = {
        **flow,
        "congestion_control": "hcc_ab12_host",
        "cwnd_packets": 10,
        "srtt_us": 250,
        "min_rtt_us": 50,
        "pacing_bytes_per_s": 25_000_000,
        "retransmitted_packets": 3,
        "bytes_acked": 1_000_000,
        "path": "1a2b3c4d",
        "path_is": "wanted",
        "wire_port": 61007,
        "dscp": 0,
        "level": 2,
    }
    flows.render(convert({"total": 3, "flows": [flow, full]}, Flows))
    captured = capsys.readouterr()
    assert "2 of 3 connections" in captured.err
    bare, known = captured.out.splitlines()[1:]
    assert bare.split()[-1] == "-"
    assert " ".join(known.split()[4:10]) == "1a2b3c4d wanted 61007 0 2 hcc_ab12_host"
    assert " ".join(known.split()[9:]) == "hcc_ab12_host 10 250 us 50.0 us 200.0 Mbit/s 3 1.00 MB"
    assert [flows.rate(v) for v in (None, 125e6)] == ["-", "1.0 Gbit/s"]
    flows.render(convert({"total": 0, "flows": []}, Flows))
    assert lines(capsys) == ["no connections"]


def test_verify_and_unfair(capsys: pytest.CaptureFixture[str]) -> None:
    answer: dict[str, Any] = {"checked": 5, "observing": None, "differences": [], "left_alone": []}
    verify.render(convert(answer, Verification))
    verify.render(convert({**answer, "observing": "rolled back"}, Verification))
    odd = {"id": "kernel", "target": "BPF", "expected": "attached", "found": "gone"}
    other = {"job": "a", "congestion_control": "reno", "connections": 2}
    verify.render(convert({**answer, "differences": [odd], "left_alone": [other]}, Verification))
    unfair.render(
        convert({"before": "mltcp", "mode": "off", "jobs": ["a", "b"], "unknown": ["c"]}, Sharing)
    )
    captured = capsys.readouterr()
    out = captured.out.splitlines()
    assert out[0] == "5 changes, all in force"
    assert out[1] == "nothing to verify: the agent only observes (rolled back)"
    assert out[3].split() == ["kernel", "BPF", "attached", "gone"]
    assert out[4].startswith("left alone: 2 connections of job a run reno")
    assert out[5] == "mltcp -> off: a, b"
    assert "c is no job here yet" in captured.err


def test_changes(capsys: pytest.CaptureFixture[str]) -> None:
    change = {
        "record": "change",
        "at": 0.0,
        "id": "job-cgroup:a",
        "what": "job-cgroup",
        "target": "/x/a",
        "from": None,
        "to": {"job": "a", "weight": None},
        "why": "hostcc run",
        "undo": "rmdir",
    }
    records: list[dict[str, Any]] = [
        {"record": "start", "at": 0.0, "pid": 7, "version": "1"},
        change,
        {"record": "undone", "at": 0.0, "id": "job-cgroup:a", "how": "the job ended"},
        {"record": "note", "at": 0.0, "target": "a", "text": "seen"},
        {"record": "stop", "at": 0.0, "how": "stopped"},
    ]
    changes.render_log(convert({"latest": records, "in_force": []}, Changes))
    changes.render_in_force(convert({"latest": [], "in_force": [change]}, Changes))
    changes.render_in_force(convert({"latest": [], "in_force": []}, Changes))
    out = lines(capsys)
    assert out[0].endswith("start   pid 7, hostcc 1")
    assert out[1].endswith("job-cgroup:a: - -> job a (hostcc run)")
    assert out[2].endswith("undone  job-cgroup:a: the job ended")
    assert out[6].split()[:2] == ["job-cgroup:a", "/x/a"]
    assert out[7] == "no change is in force"
    assert dryrun.words({"a": 1, "b": None}) == "a 1"


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    findings = [
        Finding("BTF", State.MISSING, "gone", "loading", remedy="a kernel"),
        Finding("NVML", State.MISSING, "no library", "GPUs", False, "apt-get install it"),
        Finding("clsact", State.UNKNOWN, "needs root", "tc", required=False),
        Finding("libbpf", State.OK, "v1.1", "loading"),
    ]
    doctor.render(findings, fit=False)
    out = lines(capsys)
    assert [line.split()[0] for line in out[1:5]] == ["MISSING", "missing", "?", "ok"]
    assert out[6:] == [
        "Needed:",
        "  BTF: a kernel",
        "Optional:",
        "  NVML: apt-get install it",
        "The agent cannot act on this host.",
    ]
