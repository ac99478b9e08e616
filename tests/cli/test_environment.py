"""`hostcc environment` prints the variables that `hostcc run` sets, by the configuration."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from hostcc.cli import environment
from hostcc.cli.main import main
from hostcc.config.schema import Config
from hostcc.config.sections.discover import DiscoverConfig
from hostcc.errors import Exit, HostccError
from hostcc.verbs import inject
from tests.measure.discover.test_find import jobs


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
