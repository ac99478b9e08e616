"""`hostcc run`: whatever happens, the command runs, and is itself."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.cli.run import parse_bytes, parse_weight
from hostcc.cli.unfair import parse_weights
from hostcc.errors import InputError
from tests.refusals import is_one_line, refusal_of


def run(
    folder: Path, *command: str, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "hostcc",
            "run",
            "--job",
            "a",
            "--socket",
            str(folder / "s"),
            *options,
            "--",
            *command,
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_exit_status_output_and_arguments_are_the_commands(tmp_path: Path) -> None:
    done = run(tmp_path, "sh", "-c", 'echo "$0 $1"; exit 42', "--job", "b c")
    assert (done.returncode, done.stdout) == (42, "--job b c\n")
    assert "running sh outside of job a" in done.stderr


def test_a_signal_ends_the_command_itself(tmp_path: Path) -> None:
    assert run(tmp_path, "sh", "-c", "kill -TERM $$").returncode == -signal.SIGTERM


def test_signals_are_not_left_ignored(tmp_path: Path) -> None:
    done = run(tmp_path, "grep", "SigIgn", "/proc/self/status")
    ignored = int(done.stdout.split()[1], 16)
    assert not ignored >> (signal.SIGPIPE - 1) & 1
    assert not ignored >> (signal.SIGXFSZ - 1) & 1


def test_commands_that_cannot_run(tmp_path: Path) -> None:
    done = run(tmp_path, "no-such-command-here")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        127,
        "hostcc run: no-such-command-here: command not found",
    )
    (tmp_path / "file").write_text("x")
    done = run(tmp_path, str(tmp_path / "file"))
    assert done.returncode == 126
    assert "Permission denied" in done.stderr


def test_an_agent_that_hangs_or_talks_nonsense(tmp_path: Path) -> None:
    import socket
    import threading

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()

        def answer() -> None:
            client, _ = server.accept()
            with client:
                client.recv(9999)
                client.sendall(b'{"v": 1, "ok": true, "result": {"cgroup": "/no/such"}}\n')

        thread = threading.Thread(target=answer)
        thread.start()
        done = run(tmp_path, "echo", "hello")
        thread.join()
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert "cannot enter /no/such" in done.stderr


LIBRARIES = """import os
for key in ("LD_PRELOAD", "NCCL_ENV_PLUGIN", "HOSTCC_JOB", "HOSTCC_RDMA_PLAN"):
    print(key, os.environ.get(key, "-").rpartition("/")[2])
"""


def test_rdma_without_an_agent(tmp_path: Path) -> None:
    """A warning, and the command; the shim is there for an agent that comes later."""
    done = run(tmp_path, sys.executable, "-c", LIBRARIES, options=("--rdma",))
    assert done.returncode == 0
    assert "running" in done.stderr
    seen = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert seen["HOSTCC_JOB"] == "a"
    assert seen["LD_PRELOAD"].startswith("libhostcc-rdma.so")
    assert seen["NCCL_ENV_PLUGIN"] == "libnccl-env-hostcc.so"


def test_rdma_with_an_agent(tmp_path: Path) -> None:
    """The agent says where its shared memory is."""
    answer = {"joined": True, "marks": None, "rdma": {"HOSTCC_RDMA_PLAN": "/dev/shm/elsewhere"}}
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                line = json.dumps({"v": 1, "ok": True, "result": answer})
                connection.sendall(line.encode() + b"\n")

        thread = threading.Thread(target=serve)
        thread.start()
        done = run(tmp_path, sys.executable, "-c", LIBRARIES, options=("--rdma",))
        thread.join(timeout=30)
    assert "HOSTCC_RDMA_PLAN elsewhere" in done.stdout
    assert done.stderr == ""


def test_bytes() -> None:
    assert parse_bytes(None) is None
    assert [parse_bytes(t) for t in ("1", "250M", "250MB", "3Gi", "7k")] == [
        1,
        250_000_000,
        250_000_000,
        3 << 30,
        7000,
    ]
    for text in ("", "0", "-1", "1.5G", "1T", "9" * 19, "x", "1 M", "٣"):
        with pytest.raises(InputError, match="--bytes-per-iteration: expected a whole number"):
            parse_bytes(text)


def test_weights() -> None:
    assert parse_weight(None) is None
    assert parse_weight("0.5") == 0.5
    for text in ("", "0", "nan", "inf", "-1", "101", "x"):
        with pytest.raises(InputError, match="--weight: expected a number from"):
            parse_weight(text)
    assert parse_weights(["a=1", "b:c=0.5"]) == {"a": 1.0, "b:c": 0.5}
    with pytest.raises(InputError, match="expected at most 1023 weights"):
        parse_weights([f"j{n}=1" for n in range(1024)])


@given(st.text(max_size=30))
def test_any_text(text: str) -> None:
    assert is_one_line(refusal_of(parse_bytes, text))
    assert is_one_line(refusal_of(parse_weight, text))
    assert is_one_line(refusal_of(parse_weights, [text]))
