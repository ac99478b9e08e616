"""Whole runs through the command line, on the real kernel."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest

from hostcc.cli.main import main
from hostcc.lab import down, results, state
from hostcc.system.cgroups import resolve_root
from tests.patience import Patience

pytestmark = pytest.mark.kernel

TINY = """
iterations = 5
alone_iterations = 3
[[job]]
name = "a"
compute_ms = 10
comm_ms = 10
flows = 2
[[job]]
name = "b"
compute_ms = 10
comm_ms = 10
"""
PATIENCE_S = 600
FOREVER = TINY.replace("iterations = 5", "iterations = 100000").replace(
    "alone_iterations = 3", "alone_iterations = 0"
)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(text)
    return path


def run(path: Path, *extra: str) -> dict[str, Any]:
    """Run in a process of its own; its results."""
    done = subprocess.run(
        [sys.executable, "-m", "hostcc", "lab", "run", str(path), "--json", *extra],
        capture_output=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    found: dict[str, Any] = json.loads(done.stdout)
    results.decode(done.stdout)
    return found


def things() -> set[str]:
    """Everything that labs make, wherever it is."""
    places = (Path("/run/netns"), resolve_root("auto"), state.STATE_DIRECTORY)
    return {
        str(path)
        for place in places
        if place.exists()
        for path in place.iterdir()
        if path.name.startswith(("hcc-", "hostcc-lab-")) or path.suffix == ".json"
    }


def test_jobs_variants_and_files(tmp_path: Path) -> None:
    out = tmp_path / "out"
    before = things()
    found = run(write(tmp_path, TINY), "--compare", "cubic,reno", "--out", str(out))
    assert not things() - before
    assert [variant["name"] for variant in found["variants"]] == ["cubic", "reno"]
    for variant in found["variants"]:
        assert set(variant["alone_s"]) == {"a", "b"}
        (measured,) = variant["runs"]
        for job in measured["jobs"]:
            assert len(job["seconds"]) >= 5
            assert min(job["seconds"]) >= 0.019
            assert job["sent_segments"] > 0
        assert measured["bottleneck"]["right"]["bytes"] > 0
        assert (out / measured["series"]).exists()
    for name in ("results.json", "bandwidth.png", "cdf.png", "iterations.png"):
        assert (out / name).stat().st_size > 1000


def test_table_for_people(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "run", str(write(tmp_path, TINY)), "--repeat", "2"]) == 0
    printed = capfd.readouterr()
    assert "cubic" in printed.out
    assert "loss %" in printed.out
    assert "±" in printed.out
    assert printed.err == ""


def test_ring_of_four_with_jitter_delay_and_background(tmp_path: Path) -> None:
    text = """
    iterations = 20
    alone_iterations = 2
    [fabric]
    base_rtt_us = 500
    [[job]]
    name = "ring"
    hosts = 4
    pattern = "allreduce"
    flows = 2
    compute_ms = 20
    comm_ms = 10
    jitter_percent = 20
    [[job]]
    name = "guest"
    compute_ms = 5
    comm_ms = 5
    start_ms = 20
    iterations = 3
    [[background]]
    kind = "udp"
    rate_mbit = 20
    [[background]]
    kind = "bulk"
    flows = 2
    """
    found = run(write(tmp_path, text), "--compare", "cubic")
    (measured,) = found["variants"][0]["runs"]
    ring, guest = measured["jobs"]
    assert len(ring["seconds"]) >= 20
    assert len(guest["seconds"]) == 3
    assert guest["starts_s"][0] >= 0.02 - 1e-6
    udp, bulk = measured["background"]
    # It makes up for what it was late, so more than 20 where it was late right at the begin.
    assert 5 < udp["mean_mbit"] < 35
    assert bulk["mean_mbit"] > 10


def test_jobs_that_never_pause_and_whose_bytes_vary(tmp_path: Path) -> None:
    text = """
    iterations = 20
    alone_iterations = 0
    [[job]]
    name = "busy"
    comm_ms = 10
    [[job]]
    name = "uneven"
    comm_ms = 10
    bytes_jitter_percent = 90
    """
    found = run(write(tmp_path, text), "--compare", "cubic")
    busy, uneven = found["variants"][0]["runs"][0]["jobs"]
    assert min(len(busy["seconds"]), len(uneven["seconds"])) >= 20
    assert max(uneven["seconds"]) > 2 * min(uneven["seconds"])


def test_a_control_by_name_is_set_on_both_ends(tmp_path: Path) -> None:
    found = run(write(tmp_path, TINY), "--cc", "reno")
    assert [variant["name"] for variant in found["variants"]] == ["reno"]


def test_a_users_command_gets_its_rank_and_reports(tmp_path: Path) -> None:
    program = tmp_path / "job.py"
    program.write_text(
        "import os, sys\n"
        "print(os.environ['HOSTCC_PEERS'], os.environ['RANK'], file=sys.stderr)\n"
        "for n in range(int(os.environ['HOSTCC_ITERATIONS'])):\n"
        "    print('iteration', n + 1, 0.5 + int(os.environ['HOSTCC_RANK']), flush=True)\n"
    )
    text = f"""
    iterations = 4
    alone_iterations = 2
    [[job]]
    name = "mine"
    hosts = 3
    command = ["python3", "{program}"]
    """
    found = run(write(tmp_path, text), "--compare", "cubic")
    (job,) = found["variants"][0]["runs"][0]["jobs"]
    assert job["seconds"] == [0.5] * 4
    assert job["summary"]["ratio_mean"] == 1.0


def test_actions_are_done_when_due(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    text = (
        TINY
        + f"""
    [[action]]
    at_ms = 1
    run = ["false"]
    [[action]]
    at_iteration = 2
    run = ["touch", "{mark}"]
    """
    )
    found = run(write(tmp_path, text), "--compare", "cubic")
    events = found["variants"][0]["runs"][0]["events"]
    assert mark.exists()
    # Also where a busy machine does both at once: what is due together keeps its order.
    assert [event["problem"] for event in events] == ["failed", ""]


def test_agents_are_toggled_killed_and_gone(tmp_path: Path) -> None:
    before = things()
    text = (
        TINY.replace("iterations = 5", "iterations = 200")
        + """
    [agent.mltcp]
    slope = 1.5
    [[action]]
    at_iteration = 20
    run = "unfair off"
    [[action]]
    at_iteration = 60
    run = "unfair mltcp"
    [[action]]
    at_iteration = 80
    run = "restart-agent b"
    [[action]]
    at_iteration = 90
    run = "rollback"
    [[action]]
    at_iteration = 90
    run = "unfair mltcp"
    [[action]]
    at_iteration = 120
    run = "kill-agent a"
    """
    )
    found = run(write(tmp_path, text), "--compare", "hostcc", "--alone", "0")
    (measured,) = found["variants"][0]["runs"]
    assert [event["problem"] for event in measured["events"]] == [""] * 6
    assert min(len(job["seconds"]) for job in measured["jobs"]) >= 200
    # Those of job b are still alive at the end.
    assert {agent["host"] for agent in measured["agents"]} == {"h3", "h4"}
    assert all(agent["resident_bytes"] > 0 for agent in measured["agents"])
    assert not things() - before


def test_an_agent_that_refuses_its_configuration_ends_the_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = TINY + "[agent.mltcp]\nslop = 1.5\n"
    assert main(["lab", "run", str(write(tmp_path, text)), "--compare", "hostcc"]) == 1
    error = capfd.readouterr().err
    assert error.count("\n") == 1
    assert "did you mean slope" in error


def test_a_command_that_fails_ends_the_run_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = things()
    text = '[[job]]\nname = "bad"\ncommand = ["sh", "-c", "echo no such data >&2; exit 3"]\n'
    assert main(["lab", "run", str(write(tmp_path, text))]) == 1
    error = capfd.readouterr().err
    assert error.count("\n") == 1
    assert "exit status 3: no such data" in error
    assert not things() - before


@pytest.mark.parametrize(
    "arguments",
    [
        ["--flows", "0"],
        ["--compare", "nothing-like-it"],
        ["--repeat", "0"],
        ["--rate", "-3"],
    ],
)
def test_bad_arguments(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main(["lab", "run", str(write(tmp_path, TINY)), *arguments]) == 2
    error = capfd.readouterr().err
    assert error.count("\n") == 1
    assert "expected" in error


def start_forever(tmp_path: Path) -> tuple[subprocess.Popen[bytes], set[str]]:
    """A lab that is in the middle of its traffic, and what there was before it."""
    before = things()
    # Whoever is started in a shell's background ignores it, and so would the lab.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [sys.executable, "-m", "hostcc", "lab", "run", str(write(tmp_path, FOREVER))],
        stderr=subprocess.PIPE,
        process_group=0,
    )
    patience = Patience(60.0)
    while patience.lasts():
        for lab in state.recorded():
            if lab.pid == process.pid and list(Path(lab.run_dir).glob("*.stderr")):
                time.sleep(0.3)
                return process, before
        time.sleep(0.02)
    raise AssertionError("the lab did not start")


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 128 + signal.SIGTERM)]
)
def test_signals_leave_nothing(tmp_path: Path, number: signal.Signals, status: int) -> None:
    process, before = start_forever(tmp_path)
    os.killpg(process.pid, number)  # as a terminal does
    _, error = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == status
    assert b"Traceback" not in error
    assert not things() - before


def test_down_removes_what_a_kill_leaves(tmp_path: Path) -> None:
    process, before = start_forever(tmp_path)
    (lab,) = [found for found in state.recorded() if found.pid == process.pid]
    down.down()
    assert process.poll() is None, "a lab that runs is left alone"
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    assert things() > before
    assert lab.id in down.down()
    assert not things() - before
    assert lab.id not in down.down()


def test_down_all_ends_a_running_lab(tmp_path: Path) -> None:
    process, before = start_forever(tmp_path)
    (lab,) = [found for found in state.recorded() if found.pid == process.pid]
    alone = tmp_path / "labs"  # other labs may be running on this machine, and go on
    alone.mkdir()
    shutil.copy(state.STATE_DIRECTORY / f"{lab.id}.json", alone)
    assert down.down(running_too=True, directory=alone) == [lab.id]
    process.communicate(timeout=PATIENCE_S)
    assert not things() - before
    assert lab.id not in [found.id for found in state.recorded()]


def test_records_that_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{")
    (tmp_path / "y.json").write_text('{"id": 3}')
    assert state.recorded(tmp_path) == []
    assert down.down(directory=tmp_path) == []


def test_a_pid_that_is_reused_does_not_keep_a_lab() -> None:
    lab = state.new_state()
    assert lab.alive
    other = state.LabState(lab.id, os.getpid(), lab.pid_start - 1, lab.cgroup, lab.run_dir)
    assert not other.alive


def test_bandwidth_is_drawn_on_a_terminal_while_it_runs(tmp_path: Path) -> None:
    picture = tmp_path / "live.png"
    words = ["lab", "run", str(write(tmp_path, TINY)), "--compare", "cubic", "--iterations", "120"]
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-m", "hostcc", *words, "--live", "--plot", str(picture), "--json"],
        stdout=subprocess.DEVNULL, stderr=theirs, env={**os.environ, "TERM": "xterm"},
    ) as process:  # fmt: skip
        os.close(theirs)
        seen = b""
        while True:
            try:
                seen += os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                break
        assert process.wait() == 0, seen.decode()
    os.close(ours)
    text = seen.decode()
    assert "cubic, a alone: iteration" in text
    assert re.search(r"a  \d+ Mbit/s", text)
    assert "█" in text
    assert "send at once" in text
    assert re.search(r"cubic: (jobs sent at once|too short to tell)", text)
    assert f"drawn: {picture}" in text
    assert picture.stat().st_size > 10_000


def test_jobs_that_end_by_themselves_are_asked_for_their_turns_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[int] = []

    def since(agents: Any) -> dict[str, float]:
        asked.append(len(agents))
        return {"a": time.monotonic()}

    monkeypatch.setattr("hostcc.lab.agents.turns_since", since)
    path = write(tmp_path, TINY.replace("comm_ms = 10\n", "comm_ms = 10\niterations = 5\n"))
    assert main(["lab", "run", str(path), "--compare", "cubic", "--json"]) == 0
    (variant,) = json.loads(capsys.readouterr().out)["variants"]
    turns = {job["name"]: job["turns_from_s"] for job in variant["runs"][0]["jobs"]}
    assert turns["a"] > 0
    assert turns["b"] is None
    assert asked == [0] * 3  # each of them alone, and both
