"""The .rpm for EL 9, as far as it can be looked at, installed and removed elsewhere."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import NOT_HERE
from tests.tools.packages.overlay import Installed
from tools.packages import rpm
from tools.packages.hosts import EL_9, machine

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(
        not shutil.which("rpmbuild"), reason="no rpmbuild; tools/setup --with-packages installs it"
    ),
]
FILES = {
    "/etc/hostcc/hostcc.toml", "/usr/bin/hostcc", "/usr/lib/systemd/system/hostcc.service",
    "/usr/lib/systemd/system-preset/90-hostcc.preset", "/usr/lib/sysusers.d/hostcc.conf",
    "/usr/lib/hostcc/slurm/prolog",
    "/usr/share/man/man1/hostcc.1.gz", "/usr/share/zsh/site-functions/_hostcc",
}  # fmt: skip
LIFE = """
rpm --install --nodeps /tmp/hostcc-*.rpm
echo verified; rpm --verify --nodeps hostcc
getent group hostcc
hostcc --version
rpm --erase hostcc
"""


@pytest.fixture(scope="module")
def package(built_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rpm.build(tmp_path_factory.mktemp("rpm"), built_wheel)


def told(package: Path, *words: str) -> list[str]:
    done = subprocess.run(
        ["rpm", "--query", "--package", *words, str(package)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return done.stdout.splitlines()


def test_what_it_has_and_needs(package: Path) -> None:
    assert package.name.endswith(f"{EL_9.suffix}.{machine()}.rpm")
    listed = set(told(package, "--list"))
    assert listed >= FILES
    assert told(package, "--configfiles") == ["/etc/hostcc/hostcc.toml"]
    assert {f"python{EL_9.python}", "libbpf >= 1.1", "iproute-tc"} <= set(
        told(package, "--requires")
    )
    # Libraries that it carries are for itself.
    assert {one.split()[0].split("(")[0] for one in told(package, "--provides")} == {"hostcc"}
    owners = set(told(package, "--queryformat", "[%{FILEUSERNAME}:%{FILEGROUPNAME}\n]"))
    assert owners == {"root:root"}


@pytest.mark.skipif(
    f"{sys.version_info.major}.{sys.version_info.minor}" != EL_9.python,
    reason=f"{NOT_HERE} Python {EL_9.python}, which it is made for",
)
def test_installed_and_removed(package: Path, tmp_path: Path) -> None:
    life = Installed(tmp_path, LIFE, package)
    _, _, after = life.output.partition("verified\n")
    lines = after.splitlines()
    assert lines[0].startswith("hostcc:"), lines  # nothing differs from what was packed
    assert lines[1].startswith("hostcc 0."), lines
    assert life.left == []
