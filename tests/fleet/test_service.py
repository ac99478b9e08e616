"""A fresh Debian with systemd: the package from installation to purging, under its real unit."""

from __future__ import annotations

import json
import re
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
FILES = ("debian_guest.sh", "programs.py", "exchange.py", "weight.py")
TAKEN_OVER = (
    "first", "after a kill", "after a hang", "after a restart", "after an upgrade",
    "after a downgrade",
)  # fmt: skip
NEWER, KEY = "999.0", "    later: bool = False\n"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("package")
    build = [sys.executable, "-m", "tools.packages", "deb", "--out", str(out)]
    subprocess.run(build, cwd=machine.REPOSITORY, check=True, timeout=900)
    (made,) = out.glob("*deb12*.deb")
    return made


@pytest.fixture(scope="module")
def newer(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as the next version, with one key more."""
    tree, out = tmp_path_factory.mktemp("newer") / "tree", package.with_name("newer.deb")
    subprocess.run(["dpkg-deb", "-R", str(package), str(tree)], check=True, timeout=300)
    control = tree / "DEBIAN/control"
    lines = control.read_text().splitlines(keepends=True)
    control.write_text("".join(_next_version(line) for line in lines))
    (facts,) = tree.glob("usr/lib/hostcc/lib/*/site-packages/hostcc-*.dist-info/METADATA")
    facts.write_text(re.sub(r"(?m)^Version: .*$", f"Version: {NEWER}", facts.read_text(), count=1))
    (users,) = tree.glob("usr/lib/hostcc/lib/*/site-packages/hostcc/config/sections/users.py")
    text = users.read_text().replace("    marks: bool = True\n", f"{KEY}    marks: bool = True\n")
    assert KEY in text
    users.write_text(text)
    subprocess.run(["dpkg-deb", "-b", str(tree), str(out)], check=True, timeout=900)
    return out


def _next_version(line: str) -> str:
    return f"Version: 1:{line.split()[1]}\n" if line.startswith("Version: ") else line


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
def test_from_installation_to_purging(package: Path, newer: Path, kernel: str) -> None:
    script, *others = (HERE / name for name in FILES)
    booted = debian.boot(in_guest.tree_of(kernel), script, package, newer, *others)
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
    assert [f"taken over {when}" in lines for when in TAKEN_OVER] == [True] * len(TAKEN_OVER)
    assert "rolled back and held since" in lines
    assert "released" in lines
    assert f"hostcc {NEWER}" in lines
    assert "users.later: ignored, a key of a newer version" in lines
    assert "the job goes on" in said
    assert "nothing is left" in said
