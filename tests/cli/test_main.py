"""Dispatch, exit statuses and refusals of the command line."""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostcc.cli import main as cli
from hostcc.daemon.hold import HoldFile
from hostcc.errors import Exit

pytestmark = pytest.mark.slow


def run(*words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hostcc.cli", *words],
        capture_output=True,
        text=True,
        encoding=(env or {}).get("PYTHONIOENCODING"),
        check=False,
        timeout=60,
        env=env,
    )


WITHOUT_AGENT = {
    "agent", "cluster", "plan", "run", "environment", "rank", "sim", "pcie", "keys", "probe",
    "evidence",
}  # fmt: skip
"""Commands that ask none, or need none to answer in JSON."""
CLIENTS = ["status", "jobs", "flows", "verify", "changes"]


@pytest.mark.parametrize("command", [*CLIENTS, "unfair"])
def test_no_agent_is_status_3_in_one_line(command: str, tmp_path: Path) -> None:
    words = [command, *(["off"] if command == "unfair" else [])]
    done = run(*words, "--socket", str(tmp_path / "none"))
    assert (done.returncode, done.stdout) == (Exit.NO_AGENT, "")
    assert done.stderr.startswith(f"hostcc {command}: no agent at {tmp_path}/none")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [*CLIENTS, "profile a", "plan", "peers", "unfair off", "rollback"],
)
def test_an_agent_of_another_version_is_one_line(words: str, tmp_path: Path) -> None:
    def answer() -> None:
        client, _ = server.accept()
        with client:
            client.recv(1 << 16)
            client.sendall(b'{"v":1,"ok":true,"result":{}}\n')

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "sock"))
        server.listen()
        thread = threading.Thread(target=answer)
        thread.start()
        done = run(*words.split(), "--socket", str(tmp_path / "sock"))
        thread.join()
    assert (done.returncode, done.stdout) == (Exit.FAILED, "")
    assert "not of this version: restart it" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_rollback_without_agent_or_journal(tmp_path: Path) -> None:
    done = run("rollback", "--socket", str(tmp_path / "none"))
    assert done.returncode == Exit.NO_AGENT
    assert "has no journal" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["unfair", "off", "a=1"], "a=1: expected weights only with static"),
        (["unfair", "static", "a=x"], 'a: expected a weight from 0.01 to 100, got "x"'),
        (["unfair", "static", "a=1", "a=2"], "a: expected one weight for each job"),
        (["unfair", "static", "a b=1"], '"a b=1": expected JOB=WEIGHT'),
        (["unfair", "static", "=1"], '"=1": expected JOB=WEIGHT'),
        (["flows", "--job", "a/b"], "--job: expected 1 to 64 characters"),
        (["flows", "--limit", "0"], "--limit: expected 1 to 50000, got 0"),
        (["changes", "--log", "0"], "--log: expected 1 to 10000, got 0"),
        (["status", "--watch", "0"], "--watch: expected 0.2 to 3600 seconds, got 0"),
        (["run", "--job", "a"], "expected a command after --, got none"),
        (["run", "--job", "a b", "--", "true"], "--job: expected 1 to 64 characters"),
        (["run", "--job", "a", "--weight", "0", "--", "true"], "--weight: expected a number from"),
        (["run", "--job", "a", "--bytes-per-iteration", "1.5M", "--", "x"], "--bytes-per-iter"),
        (["profile", "a", "--plot", "a.txt"], "--plot: expected a name that ends in .png"),
        (["pcie", "--job", "a=none"], "--job: a: 'none': expected a bus id"),
        (["probe", "127.0.0.1", "--port", "0"], "--port: expected 1 to 65535, got 0"),
        (["lab", "run", "two-jobs", "--cc", "none"], "--cc: expected a congestion control that"),
        (["lab", "run", "two-jobs", "--plot", "/none/a.png"], "--plot: expected a file in a"),
        (["agent", "--check", "--dry-run"], "--check: expected without --dry-run"),
    ],
)
def test_bad_input_is_status_2_in_one_line(words: list[str], message: str) -> None:
    done = run(*words)
    assert (done.returncode, done.stdout) == (Exit.BAD_INPUT, "")
    assert f": {message}" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", [[], ["nonsense"], ["status", "--nonsense"], ["unfair"]])
def test_wrong_usage_is_status_2(words: list[str]) -> None:
    done = run(*words)
    assert done.returncode == Exit.BAD_INPUT
    assert "usage: hostcc" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["flows", "--limit", "x"], "argument --limit: expected a whole number, got 'x'"),
        (["lab", "run", "two-jobs", "--rate", "x"], "argument --rate: expected a number, got 'x'"),
    ],
)
def test_what_is_no_number_is_refused_with_what_was_expected(
    words: list[str], message: str
) -> None:
    done = run(*words)
    assert done.returncode == Exit.BAD_INPUT
    assert done.stderr.splitlines()[-1].endswith(f": {message}")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["statu"], "status"),
        (["status", "--jsn"], "--json"),
        (["status", "--wach=2"], "--watch"),
        (["unfair", "sttic"], "static"),
        (["keys", "nwe"], "new"),
        (["bench", "rooting"], "routing"),
        (["lab", "run", "two-jobs", "--iteration", "3"], "--iterations"),
        (["run", "--job", "a", "--markk", "--", "true"], "--mark"),
    ],
)
def test_what_was_probably_meant(words: list[str], meant: str) -> None:
    done = run(*words)
    assert (done.returncode, done.stdout) == (Exit.BAD_INPUT, "")
    *usage, line = done.stderr.splitlines()
    assert usage[0].startswith("usage: hostcc")
    assert line.startswith("hostcc")
    assert line.endswith(f"; did you mean {meant}?")


@pytest.mark.parametrize(
    ("words", "code", "status"),
    [
        (["status", "--socket", "/none"], "no-agent", Exit.NO_AGENT),
        (["flows", "--job", "a/b"], "bad-request", Exit.BAD_INPUT),
        (["status", "--nonsense"], "bad-request", Exit.BAD_INPUT),
        (["statu"], "bad-request", Exit.BAD_INPUT),
        (["plan", "/none"], "bad-request", Exit.BAD_INPUT),
        (["agent"], "bad-request", Exit.BAD_INPUT),
        (["rank", "/none"], "bad-request", Exit.BAD_INPUT),
        (["agent", "--dry-run", "--config", "/none"], "configuration", Exit.CONFIGURATION),
    ],
)
def test_whoever_expects_json_gets_json(words: list[str], code: str, status: Exit) -> None:
    """A document on standard output, and the line for people where it always is."""
    done = run(*words, "--json")
    assert done.returncode == status
    answer = json.loads(done.stdout)
    assert answer["schema"] == "hostcc.error/1"
    error = answer["error"]
    assert (error["code"], error["exit_status"]) == (code, status)
    assert error["message"]
    assert done.stderr.endswith(f": {error['message']}\n")


def test_json_of_a_jobs_own_command_is_not_ours() -> None:
    done = run("run", "--job", "a b", "--", "true", "--json")
    assert (done.returncode, done.stdout) == (Exit.BAD_INPUT, "")


def test_the_socket_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every command that asks the agent; the command line says otherwise."""
    monkeypatch.setenv("HOSTCC_SOCKET", f"{tmp_path}/mine")
    asking = [c for c in cli.COMMANDS if parser_of(c).get_default("socket") is not None]
    assert {"status", "run", "jobs", "plan", "peers", "doctor", "rollback"} <= set(asking)
    for command in asking:
        assert parser_of(command).get_default("socket") == tmp_path / "mine"
    done = run("status")
    assert done.returncode == Exit.NO_AGENT
    assert f"no agent at {tmp_path}/mine" in done.stderr
    assert "no agent at /other" in run("status", "--socket", "/other").stderr
    monkeypatch.setenv("HOSTCC_SOCKET", "")
    assert parser_of("status").get_default("socket") == Path("/run/hostcc/control.sock")


def parser_of(command: str) -> argparse.ArgumentParser:
    """A command's own, which is complete."""
    (action,) = cli.build_parser(command)._subparsers._group_actions  # type: ignore[union-attr]
    assert isinstance(action.choices, dict)
    found: argparse.ArgumentParser = action.choices[command]
    return found


@pytest.mark.parametrize("command", [c for c in cli.COMMANDS if c not in {"lab", "bench"}])
def test_every_command_explains_itself(command: str) -> None:
    done = run(command, "--help")
    assert done.returncode == Exit.OK
    assert f"hostcc {command}" in done.stdout
    if command not in WITHOUT_AGENT:
        assert "--socket PATH" in done.stdout
        assert "--json" in done.stdout


def parsers(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, argparse.Action]]:
    """Every option and argument below a parser, with the command that it belongs to."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, below in action.choices.items():
                yield from parsers(below, f"{name} {word}")
        else:
            yield name, action


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_option_is_explained(command: str) -> None:
    silent = [
        f"{name} {action.option_strings or action.dest}"
        for name, action in parsers(cli.build_parser(command), "hostcc")
        if not action.help
    ]
    assert silent == []


def test_overview_and_version() -> None:
    overview = run("--help").stdout
    assert all(command in overview for command in cli.COMMANDS)
    assert "exit status" in overview
    assert run("--version").stdout.startswith("hostcc ")


def test_a_command_that_cannot_be_loaded_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hostcc.cli.bench", None)
    assert cli.main(["bench"]) == Exit.FAILED


def test_other_commands_are_not_imported() -> None:
    script = (
        "import sys; from hostcc.cli.main import build_parser; build_parser('run');"
        "print([m for m in ('numpy', 'msgspec', 'rich', 'asyncio') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def shell(line: str) -> subprocess.CompletedProcess[str]:
    line = line.replace("hostcc", f"{sys.executable} -m hostcc.cli", 1)
    return subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("words", ["doctor", "--help", "lab list"])
def test_a_reader_that_stops_early_is_no_error(words: str) -> None:
    assert shell(f"hostcc {words} | true").stderr == ""


@pytest.mark.parametrize("words", ["--version", "--help", "lab list", "pcie --json"])
def test_a_full_disk_is_one_line_and_status_1(words: str) -> None:
    done = shell(f"hostcc {words} >/dev/full")
    assert done.returncode == Exit.FAILED
    assert done.stderr.endswith(": cannot write the output: No space left on device\n")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", ["lab list", "pcie", "pcie --json"])
def test_closed_output_is_like_no_output(words: str) -> None:
    done = shell(f"hostcc {words} >&-")
    assert (done.returncode, done.stderr) == (Exit.OK, "")


def test_errors_need_no_standard_error(tmp_path: Path) -> None:
    for where in ("2>&-", "2>/dev/full"):
        done = shell(f"hostcc status --socket {tmp_path}/none {where}")
        assert done.returncode == Exit.NO_AGENT


@pytest.mark.parametrize("option", ["", "--json"])
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_locale_without_unicode(option: str, encoding: str, tmp_path: Path) -> None:
    """Names of links and members may have any visible character."""
    link = "über\N{RIGHTWARDS ARROW}\N{SNOWMAN}\U0001f4a1"
    flows = [
        {"id": job, "job": job, "src": "a", "dst": "b", "bytes": 1e9, "path": "0"} for job in "xy"
    ]
    common = {"compute_s": 0.1, "comm_start_s": 0.1, "work": 1e12, "gpus": 1, "period_s": 0.2}
    view = {
        "jobs": [{"job": job, "comm_s": 0.1, **common} for job in "xy"],
        "flows": flows,
        "tables": [{"src": "a", "dst": "b", "paths": [{"id": "0", "links": [link]}]}],
        "links": [[link, 1e10]],
    }
    (tmp_path / "view.json").write_text(json.dumps(view))
    words = ["links", "--view", str(tmp_path / "view.json"), *option.split()]
    words += ["--plot", str(tmp_path / "circles.svg")]
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = run(*words, env={**os.environ, **plain, "PYTHONIOENCODING": encoding})
    assert (done.returncode, done.stderr) == (Exit.OK, "")
    assert link in (tmp_path / "circles.svg").read_text(encoding="utf-8")
    if option:
        assert json.loads(done.stdout)["links"][0]["link"] == link
    else:
        assert "\\u2192\\u2603\\ud83d\\udca1" in done.stdout


@pytest.mark.parametrize("words", ["plan -", "rank -", "keys allow -"])
def test_closed_input_is_refused(words: str) -> None:
    done = shell(f"hostcc {words} <&-")
    assert done.returncode == Exit.BAD_INPUT
    assert done.stderr.endswith(": -: expected standard input, got none\n")


def test_dry_run_of_a_bad_configuration(tmp_path: Path) -> None:
    path = tmp_path / "h.toml"
    path.write_text("[mltcp]\nslop = 1\n")
    done = run("agent", "--config", str(path), "--dry-run")
    assert done.returncode == Exit.CONFIGURATION
    assert f"{path}: mltcp.slop: expected one of the keys" in done.stderr
    assert "did you mean slope?" in done.stderr


def test_dry_run_names_a_hold(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(f'[agent]\nrun_dir = "{tmp_path}"\nobserve_only = true\n')
    HoldFile(tmp_path).write("rollback", "a test")
    done = run("agent", "--config", str(path), "--dry-run", "--json")
    assert "held" in done.stderr
    assert "by a test" in json.loads(done.stdout)["held"]
    HoldFile(tmp_path).release()
    free = run("agent", "--config", str(path), "--dry-run", "--json")
    assert json.loads(free.stdout)["held"] is None


def test_dry_run_without_cgroup2_still_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "h.toml"
    path.write_text(f'[agent]\ncgroup_root = "{tmp_path}"\nrun_dir = "{tmp_path}/run"\n')
    done = run("agent", "--config", str(path), "--dry-run", "--json")
    assert done.returncode == Exit.OK
    answer = json.loads(done.stdout)
    assert answer["changes"] == []
    assert any("cgroup" in text for text in answer["missing"])
    assert not (tmp_path / "run").exists()
