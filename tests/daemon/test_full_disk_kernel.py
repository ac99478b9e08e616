"""A start where nothing can be written: refused in one line, and the host is as it was."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import until
from tests.real import HOSTCC, RealHost

pytestmark = pytest.mark.kernel

PAGE = 4096


@pytest.fixture
def host(tmp_path: Path, cgroup2: Path) -> Iterator[RealHost]:
    made = RealHost(tmp_path, cgroup2)
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    options = ["-o", f"mode=755,size={64 * PAGE},nr_inodes=32"]
    subprocess.run(["mount", "-t", "tmpfs", *options, "none", str(run_dir)], check=True)
    yield made
    made.close()
    subprocess.run(["umount", str(run_dir)], check=True)
    assert made.ours() == set()


def fill(run_dir: Path, what: str) -> list[Path]:
    """No room for bytes, or for files."""
    made = []
    with pytest.raises(OSError, match="No space left") as caught:  # noqa: PT012 - until one fails
        for number in range(64):
            made.append(run_dir / f"filler-{number}")
            made[-1].write_bytes(bytes(4 * PAGE) if what == "bytes" else b"")
    assert caught.value.errno == errno.ENOSPC
    return [path for path in made if path.exists()]


@pytest.mark.parametrize("what", ["bytes", "files"])
def test_an_agent_that_cannot_record_changes_nothing(host: RealHost, what: str) -> None:
    run_dir = host.socket.parent
    path = host.configure()
    filler = fill(run_dir, what)
    command = [*host.enter, *HOSTCC, "agent", "--config", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1, done.stderr
    (line,) = done.stderr.splitlines()
    assert str(run_dir) in line
    assert "No space left on device" in line
    assert host.ours() == set()
    for one in filler:
        one.unlink()
    agent = host.start()  # once there is room
    assert host.stop(agent) == 0


@pytest.mark.parametrize("what", ["bytes", "files"])
def test_what_a_killed_agent_left_is_undone_on_a_full_disk(host: RealHost, what: str) -> None:
    agent = host.start()
    base = host.root / "hostcc"
    until(base.is_dir, host.log)
    agent.kill()
    agent.wait()
    assert base.is_dir()
    fill(host.socket.parent, what)
    done = host.client("rollback", "--run-dir", str(host.socket.parent))
    assert not base.exists(), done.stderr
    assert done.returncode in (0, 4), done.stderr  # undone, and perhaps not recorded
