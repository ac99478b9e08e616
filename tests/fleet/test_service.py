"""A fresh Debian with systemd: the package from installation to purging, under its real unit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import NOT_HERE
from tests.fleet import debian, in_guest
from tests.vm import machine
from tests.vm.test_oldest_kernel import debian_12

pytestmark = [
    pytest.mark.timeout(7200),
    pytest.mark.skipif(not debian_12(), reason=f"{NOT_HERE} Debian 12's kernel package"),
    pytest.mark.skipif(
        not debian.TREE.exists(), reason="no Debian to boot; tools/setup --with-fleet makes it"
    ),
]
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("package")
    build = [sys.executable, "-m", "tools.packages", "deb", "--out", str(out)]
    subprocess.run(build, cwd=machine.REPOSITORY, check=True, timeout=900)
    (made,) = out.glob("*deb12*.deb")
    return made


@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(in_guest.OLDEST, marks=pytest.mark.vm),
        *(
            pytest.param(name, marks=pytest.mark.fleet)
            for name in in_guest.here()
            if name != in_guest.OLDEST
        ),
    ],
)
def test_from_installation_to_purging(package: Path, kernel: str) -> None:
    script, programs = HERE / "debian_guest.sh", HERE / "programs.py"
    booted = debian.boot(in_guest.tree_of(kernel), script, package, programs)
    try:
        outcome = booted.end()
    finally:
        booted.close()
    assert outcome.status == 0, machine.described(outcome)
    said = outcome.output
    lines = [line for line in said.splitlines() if line != "."]
    assert "active" in lines
    doctor = json.loads(next(line for line in lines if line.startswith("{")).rstrip("."))
    assert doctor["healthy"], doctor
    assert "NRestarts=1" in lines
    assert "the job goes on" in said
    assert "nothing is left" in said
