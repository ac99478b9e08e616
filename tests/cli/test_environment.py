"""`hostcc environment` prints the variables that `hostcc run` sets, by the configuration."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import hostcc
from hostcc.cli import environment
from hostcc.cli.main import main
from hostcc.config.schema import Config
from hostcc.config.sections.discover import DiscoverConfig
from hostcc.errors import Exit, HostccError
from hostcc.verbs import cdi, inject
from tests.kubernetes.device_interface import Edits, read
from tests.measure.discover.test_find import jobs

PACKAGE = Path(hostcc.__file__).parent


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, str]:
    assert main(["environment", *words]) == Exit.OK
    lines = [shlex.split(line) for line in capsys.readouterr().out.splitlines()]
    assert {word for word, _ in lines} == {"export"}
    return dict(pair.split("=", 1) for _, pair in lines)


def test_all_of_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = tmp_path / "hostcc.toml"
    config.write_text('[agent]\nrun_dir = "/run/other"\n[rdma]\nplan = "/dev/shm/other"\n')
    few = printed(capsys, "--job", "a:b", "--config", str(config))
    assert few == {"HOSTCC_JOB": "a:b", "HOSTCC_MARK_SOCKET": "/run/other/marks.sock"}
    many = printed(capsys, "--job", "a:b", "--config", str(config), "--mark", "--rdma")
    assert few.items() < many.items()
    assert many["HOSTCC_RDMA_PLAN"] == "/dev/shm/other"
    assert set(inject.environment("a:b", {}, dict.fromkeys(inject.KEYS, "/x"))) < set(many)
    assert Path(many["PYTHONPATH"], "sitecustomize.py").exists()


@pytest.mark.parametrize("cluster", ["", "east"])
def test_slurms_name_is_that_of_discovery(cluster: str, tmp_path: Path) -> None:
    config = Config(discover=DiscoverConfig(slurm_cluster=cluster))
    name = environment.slurm_name(config).replace(environment.NUMBER, "123")
    assert set(jobs("slurm-v2", tmp_path, config.discover.rules)) == {name}


@pytest.mark.parametrize("value", ["/a b", "/a'", "/a\nb", "$(x)"])
def test_a_value_that_a_shell_would_change_is_refused(value: str) -> None:
    with pytest.raises(HostccError, match=r"^HOSTCC_RDMA_PLAN: expected a value of"):
        environment.exports({"HOSTCC_RDMA_PLAN": value})


def test_a_wrong_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["environment", "--job", "a b"]) == Exit.BAD_INPUT
    assert "--job: expected 1 to 64" in capsys.readouterr().err


FOLDERS = """
[rdma]
plan = "/dev/shm/x/agent/plan"
counts = "/dev/shm/x/jobs/qp"
[pcie]
semaphores = "/dev/shm/x/agent/pcie"
[marks]
socket = "/dev/shm/x/agent/marks"
"""


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Absent: compiled libraries, where there are none."""
    monkeypatch.setattr(inject, "check", lambda: None)


def devices(capsys: pytest.CaptureFixture[str], config: Path, *words: str) -> dict[str, Edits]:
    config.write_text(FOLDERS)
    assert main(["environment", "--cdi", "--config", str(config), *words]) == Exit.OK
    return read(capsys.readouterr().out)


def test_devices_by_the_configuration(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, libraries: None
) -> None:
    found = devices(capsys, tmp_path / "hostcc.toml")["hostcc.dev/job=rdma"]
    assert "HOSTCC_RDMA_PLAN=/dev/shm/x/agent/plan" in found.env
    assert {one.host_path for one in found.mounts if "rw" in one.options} == {"/dev/shm/x/jobs"}


def test_what_jobs_load_is_copied_and_named_there(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    libraries: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever has an older file open keeps it."""
    monkeypatch.setattr(cdi, "FILES", cdi.HOOK)  # those that need no compiler
    there = tmp_path / "there"
    old = there / "mark.py"
    there.mkdir()
    old.write_text("old")
    with old.open() as held:
        found = devices(capsys, tmp_path / "hostcc.toml", "--copy-to", str(there))
        assert held.read() == "old"
    steps = found["hostcc.dev/job=steps"]
    assert f"PYTHONPATH={there}/injob/site" in steps.env
    files = [Path(one.host_path) for one in steps.mounts if one.host_path.startswith(str(there))]
    assert {path.relative_to(there).as_posix() for path in files} == {*cdi.HOOK}
    assert all(path.read_bytes() == (PACKAGE / path.relative_to(there)).read_bytes()
               for path in files)  # fmt: skip
    assert sorted(path for path in there.rglob("*") if path.is_file()) == sorted(files)


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["--cdi", "--rdma"], "--cdi: its devices stand for --rdma and --mark"),
        (["--cdi", "--mark"], "--cdi: its devices stand for --rdma and --mark"),
        (["--job", "a", "--copy-to", "/x"], "--copy-to: expected with --cdi"),
        (["--cdi", "--copy-to", "x"], "--copy-to: expected an absolute path"),
        (["--cdi", "--copy-to", "/x y"], "--copy-to: expected an absolute path"),
    ],
)
def test_what_does_not_go_together(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    libraries: None,
    words: list[str],
    refusal: str,
) -> None:
    config = tmp_path / "hostcc.toml"
    config.write_text(FOLDERS)
    assert main(["environment", *words, "--config", str(config)]) == Exit.BAD_INPUT
    assert refusal in capsys.readouterr().err


def test_folders_of_the_usual_configuration_are_not_given_away(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, libraries: None
) -> None:
    config = tmp_path / "hostcc.toml"
    config.write_text("")
    assert main(["environment", "--cdi", "--config", str(config)]) == Exit.BAD_INPUT
    assert "rdma.counts: expected a path in a folder for jobs alone" in capsys.readouterr().err
