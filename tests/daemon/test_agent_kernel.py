"""The whole product on the real kernel, used by its command line."""

from __future__ import annotations

import json
import signal
import subprocess

import pytest

from tests.real import HOSTCC, RealHost, available, until

pytestmark = pytest.mark.kernel


def test_run_puts_a_command_in_a_job_and_returns_its_status(host: RealHost) -> None:
    host.start()
    talker = host.talker("train", 7001, "--weight", "2")
    ours = host.ours()
    assert set(talker.controls()) <= ours
    assert talker.cgroup() == f"/{host.name}/hostcc/train"
    (job,) = host.json("status")["jobs"]
    assert (job["name"], job["processes"], job["weight"]) == ("train", 1, 2.0)
    flows = host.json("flows", "--job", "train")["flows"]
    assert [(flow["ours"], flow["state"]) for flow in flows] == [(True, "established")] * 2
    assert "train" in host.client("status").stdout
    assert "1.75 r + 0.25" in host.client("jobs").stdout
    assert talker.exit(7) == 7
    until(lambda: host.json("status")["jobs"] == [], "the job's end")
    assert not (host.root / "hostcc" / "train").exists()


def test_the_toggle_moves_live_connections_both_ways(host: RealHost) -> None:
    host.start()
    default = host.inside("sysctl", "-n", "net.ipv4.tcp_congestion_control").strip()
    talker = host.talker("a", 7001)
    bystander = host.talker("", 7002)
    assert host.client("unfair", "off").returncode == 0
    assert set(talker.controls()) == {default}
    assert host.client("unfair", "mltcp").returncode == 0
    assert set(talker.controls()) <= host.ours()
    assert host.client("unfair", "static", "a=3").returncode == 0
    assert host.json("status")["jobs"][0]["static_weight"] == 3.0
    assert set(bystander.controls()) == {default}
    assert talker.ask("send 1000000") == "sent"
    log = host.client("changes", "--log").stdout
    assert "mode: mltcp -> mode off (hostcc unfair, by uid 0" in log


def test_a_job_that_is_not_there_is_status_1_whoever_asks(host: RealHost) -> None:
    host.start()
    host.talker("train", 7001)
    for words in (["flows", "--job", "nobody"], ["profile", "nobody"]):
        done = host.client(*words)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"hostcc {words[0]}: no job nobody on this host\n"
        error = host.json(*words)["error"]
        assert (error["code"], error["exit_status"]) == ("no-job", 1)
    # A weight is kept for a job that may come.
    assert host.client("unfair", "static", "nobody=2").returncode == 0
    done = host.client("flows", "--job", "train")
    assert (done.returncode, done.stdout.count("established")) == (0, 2)


def test_in_mode_off_connections_are_listed_and_nothing_is_said_to_be_none(host: RealHost) -> None:
    """Nobody counts what the host's own congestion control sends: that is not 0."""
    host.start('[mltcp]\nmode = "off"\n[[job]]\nname = "ruled"\nlocal_ports = [7002]\n')
    host.talker("train", 7001).ask("send 1000000")
    host.talker("", 7002)
    listed = [flow["job"] for flow in host.json("flows")["flows"]]
    assert sorted(listed) == ["ruled", "train", "train"]
    assert host.client("flows", "--job", "train").stdout.count("established") == 2
    rows = host.json("status")["jobs"]
    assert [(row["name"], row["flows"], row["bytes_acked"]) for row in rows] == [
        ("ruled", None, None),
        ("train", None, None),
    ]
    assert "0 B" not in host.client("status").stdout
    assert host.client("unfair", "mltcp").returncode == 0
    assert [row["flows"] for row in host.json("status")["jobs"]] == [1, 2]


def test_open_connections_are_found_by_port_in_every_namespace(host: RealHost) -> None:
    talker = host.talker("", 7001)
    outside = host.talker("", 7002)
    rule = '[[job]]\nname = "svc"\nlocal_ports = ["7000-7001"]\n'
    host.start(rule, inside=False, network_namespaces="all")
    # Only one end has the local port.
    assert len(set(talker.controls()) & host.ours()) == 1
    assert not set(outside.controls()) & host.ours()
    assert host.client("rollback").returncode == 0
    assert not set(talker.controls()) & host.ours()


def test_jobs_in_other_namespaces_follow_the_toggle(host: RealHost) -> None:
    host.start(inside=False, network_namespaces="all")
    talker = host.talker("contained", 7001)
    ours = host.ours()
    assert set(talker.controls()) <= ours
    assert host.client("unfair", "off").returncode == 0
    assert not set(talker.controls()) & ours
    assert host.client("unfair", "mltcp").returncode == 0
    assert set(talker.controls()) <= ours
    assert len(host.json("flows")["flows"]) == 2


def test_keep_leaves_jobs_for_the_next_agent(host: RealHost) -> None:
    process = host.start(on_exit="keep")
    talker = host.talker("a", 7001, "--weight", "3")
    assert host.stop(process) == 0
    assert host.ours() == set()
    assert talker.cgroup() == f"/{host.name}/hostcc/a"
    assert talker.ask("send 1000000") == "sent"
    host.start()
    (job,) = host.json("status")["jobs"]
    assert (job["name"], job["weight"], job["processes"]) == ("a", 3.0, 1)


def test_kill_9_breaks_nothing_and_the_next_agent_takes_over(host: RealHost) -> None:
    process = host.start()
    talker = host.talker("live", 7001)
    ended = host.talker("ended", 7002)
    before = host.ours()
    assert before
    host.stop(process, signal.SIGKILL)
    until(lambda: not host.ours(), "the kernel to forget the congestion controls")
    assert talker.ask("send 3000000") == "sent"
    ended.exit(0)
    done = host.client("status")
    assert (done.returncode, len(done.stderr.splitlines())) == (3, 1)
    host.start()
    assert [job["name"] for job in host.json("status")["jobs"]] == ["live"]
    assert not (host.root / "hostcc" / "ended").exists()
    assert host.ours() == before
    assert talker.ask("send 3000000") == "sent"
    fresh = host.talker("live", 7003)
    assert set(fresh.controls()) <= before


def test_the_next_agent_takes_over_open_connections_too(host: RealHost) -> None:
    process = host.start()
    talker = host.talker("live", 7001)
    host.stop(process, signal.SIGKILL)
    host.start()
    default = host.inside("sysctl", "-n", "net.ipv4.tcp_congestion_control").strip()
    assert host.client("unfair", "off").returncode == 0
    assert set(talker.controls()) == {default}
    assert host.json("verify")["left_alone"] == []


def test_a_second_agent_is_refused(host: RealHost) -> None:
    process = host.start()
    done = subprocess.run(
        [*HOSTCC, "agent", "--config", str(host.folder / "hostcc.toml")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert f"another agent (pid {process.pid}) runs" in done.stderr
    assert host.answers(process.pid)


def test_sigterm_restores_the_host(host: RealHost) -> None:
    process = host.start()
    default = host.inside("sysctl", "-n", "net.ipv4.tcp_congestion_control").strip()
    talker = host.talker("a", 7001)
    assert host.stop(process) == 0
    assert set(talker.controls()) == {default}
    assert talker.cgroup() == "/"
    assert host.ours() == set()
    # What is left is the empty group of the job that runs on, for the next agent.
    left = [path.name for path in (host.root / "hostcc").glob("*/")]
    assert (left, (host.root / "hostcc" / "a" / "cgroup.procs").read_text()) == (["a"], "")
    done = host.client("rollback")
    assert (done.returncode, done.stdout) == (0, "undone: cgroup\nundone: job-cgroup:a\n")
    assert not (host.root / "hostcc").exists()
    done = host.client("rollback")
    assert (done.returncode, done.stdout) == (0, "nothing to undo\n")


def test_sigterm_leaves_nothing_when_no_job_runs(host: RealHost) -> None:
    process = host.start()
    assert host.talker("a", 7001).exit(0) == 0
    assert host.stop(process) == 0
    assert not (host.root / "hostcc").exists()
    done = host.client("rollback")
    assert (done.returncode, done.stdout) == (0, "nothing to undo\n")


def test_verify_notices_an_administrators_hand(host: RealHost) -> None:
    host.start()
    talker = host.talker("a", 7001)
    assert host.client("verify").returncode == 0
    assert talker.ask("set reno") == "done"
    journal = (host.folder / "run" / "journal.jsonl").read_bytes()
    done = host.client("verify")
    assert done.returncode == 1
    assert "reno on 1 connections" in done.stdout
    assert (host.folder / "run" / "journal.jsonl").read_bytes() == journal  # to ask writes nothing
    host.client("unfair", "mltcp")
    assert "reno" in talker.controls()
    assert host.json("verify")["left_alone"] == [
        {"job": "a", "congestion_control": "reno", "connections": 1}
    ]
    assert "standing aside" in host.log()


def test_a_command_that_chose_its_own_control_keeps_it(host: RealHost) -> None:
    talker = host.talker("", 7001)
    assert talker.ask("set reno") == "done"
    host.start('[[job]]\nname = "svc"\nlocal_ports = [7001]\nremote_ports = [7001]\n')
    assert "reno" in talker.controls()
    assert host.client("verify").returncode == 0


def test_rollback_with_and_without_an_agent(host: RealHost) -> None:
    process = host.start()
    default = host.inside("sysctl", "-n", "net.ipv4.tcp_congestion_control").strip()
    talker = host.talker("a", 7001)
    assert host.client("rollback").returncode == 0
    assert set(talker.controls()) == {default}
    assert (talker.cgroup(), host.ours()) == ("/", set())
    assert host.json("status")["agent"]["state"] == "observing"
    late = host.talker("b", 7002)
    assert set(late.controls()) == {default}
    assert host.client("unfair", "mltcp").returncode == 0
    again = host.talker("c", 7003)
    assert set(again.controls()) <= host.ours()
    host.stop(process, signal.SIGKILL)
    done = host.client("rollback")
    assert (done.returncode, done.stderr) == (0, "")
    assert "undone: job-cgroup:c" in done.stdout
    assert again.cgroup() == "/"
    assert not (host.root / "hostcc").exists()
    assert host.ours() == set()


def test_without_an_agent_run_warns_and_runs(host: RealHost) -> None:
    done = subprocess.run(
        [*HOSTCC, "run", "--job", "a", "--socket", str(host.socket), "--", "sh", "-c", "exit 9"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 9
    assert len(done.stderr.splitlines()) == 1
    assert "running sh outside of job a" in done.stderr


def test_dry_run_changes_nothing(host: RealHost) -> None:
    path = host.configure('[[job]]\nname = "svc"\nlocal_ports = [9]\n')
    before = available()
    done = subprocess.run(
        [*HOSTCC, "agent", "--config", str(path), "--dry-run", "--json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    ids = [change["id"] for change in json.loads(done.stdout)["changes"]]
    assert ids == ["congestion-control:hostcc", "cgroup", "port-rules", "job-sockets:svc", "gates"]
    assert list(host.root.glob("*/")) == []
    assert not (host.folder / "run").exists()
    assert {n for n in available() - before if n.startswith(f"hcc_{host.tag()}")} == set()
    host.start('[[job]]\nname = "svc"\nlocal_ports = [9]\n')

    def in_force() -> list[str]:
        return [change["id"] for change in host.json("changes")["in_force"]]

    until(lambda: in_force() == ids, "the parts to start")


def test_observers_change_nothing_and_show_flows_by_rule(host: RealHost) -> None:
    talker = host.talker("", 7001)
    rule = '[[job]]\nname = "svc"\nremote_ports = [7001]\n'
    host.start(rule, observe_only=True)
    assert host.ours() == set()
    (flow,) = host.json("flows")["flows"]
    assert (flow["job"], flow["remote"], flow["state"]) == (
        "svc",
        "127.0.0.1:7001",
        "established",
    )
    assert "observing only" in host.client("status").stdout
    assert talker.ask("send 10") == "sent"


def test_reload_by_sighup(host: RealHost) -> None:
    process = host.start()
    talker = host.talker("a", 7001)
    first = host.ours()
    host.configure('[mltcp]\nvariant = "nonsense"')
    process.send_signal(signal.SIGHUP)
    until(lambda: "reload refused" in host.log(), "the refusal")
    assert "mltcp.variant: expected one of" in host.log()
    host.configure('[mltcp]\nvariant = "cubic"')
    process.send_signal(signal.SIGHUP)
    until(lambda: host.ours() != first and bool(host.ours()), "the other variant")
    until(lambda: "configuration reloaded" in host.log(), "the end of the reload")
    assert set(host.talker("b", 7002).controls()) <= host.ours()
    assert set(talker.controls()) <= host.ours()
    assert [job["name"] for job in host.json("status")["jobs"]] == ["a", "b"]


def test_doctor_finds_this_host_fit(host: RealHost) -> None:
    answer = host.json("doctor")
    assert answer["healthy"]
    states = {finding["name"]: finding["state"] for finding in answer["findings"]}
    assert states["struct_ops"] == states["clsact"] == states["cgroup v2"] == "ok"


def test_offline_rollback_restores_open_connections(host: RealHost) -> None:
    ruled = host.talker("", 7002)
    process = host.start('[[job]]\nname = "svc"\nlocal_ports = [7002]\n')
    default = host.inside("sysctl", "-n", "net.ipv4.tcp_congestion_control").strip()
    talker = host.talker("a", 7001)
    assert len(set(ruled.controls()) & host.ours()) == 1
    host.stop(process, signal.SIGKILL)
    assert host.client("rollback").returncode == 0
    assert set(talker.controls()) == {default}
    assert set(ruled.controls()) == {default}
    host.start('[[job]]\nname = "svc"\nlocal_ports = [7002]\n')
    assert len(set(ruled.controls()) & host.ours()) == 1


def test_an_agent_that_only_observes_undoes_what_a_killed_one_left(host: RealHost) -> None:
    process = host.start()
    default = host.inside("sysctl", "-n", "net.ipv4.tcp_congestion_control").strip()
    talker = host.talker("a", 7001)
    host.stop(process, signal.SIGKILL)
    host.start(observe_only=True)
    assert talker.cgroup() != "/"
    done = host.client("rollback")
    assert (done.returncode, done.stderr) == (0, "")
    assert "undone: job-cgroup:a\n" in done.stdout
    assert set(talker.controls()) == {default}
    assert talker.cgroup() == "/"
    assert not (host.root / "hostcc").exists()
