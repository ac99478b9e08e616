"""Python packages that hostcc needs, as constraints.txt pins them, for the Python of a host.

`python -m tools.packages.vendor` gets their wheels into .packages, so that packages are made
without a network from then on.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from tools import sbom
from tools.elf_needs import OLDEST_GLIBC
from tools.packages.hosts import PYTHONS, machine

TOP = Path(__file__).resolve().parents[2]
CACHE = TOP / ".packages"
OLDEST_MANYLINUX = 5
LEFT_OUT = (
    "tests", "*_tests.cpython-*.so", "*.pyi", "*.pxd", "*.pxi", "*.h", "*.a", "*.lib", "*.f90",
)  # fmt: skip
"""What no host needs of these packages."""


def requirements() -> str:
    """The lines of constraints.txt for what hostcc needs, with their digests."""
    text = (TOP / "constraints.txt").read_text()
    wanted = set(sbom.needed(TOP))
    return "".join(f"{one}\n" for one in _blocks(text) if sbom.normal(one.split("==")[0]) in wanted)


def _blocks(text: str) -> Iterator[str]:
    block: list[str] = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        block.append(line)
        if not line.endswith("\\"):
            yield "\n".join(block)
            block = []


def _pip(command: str, python: str, *words: str) -> None:
    """For another Python than this one."""
    oldest, newest = OLDEST_MANYLINUX, OLDEST_GLIBC[1]
    platforms = [f"manylinux_2_{minor}_{machine()}" for minor in range(newest, oldest - 1, -1)]
    done = subprocess.run(
        [sys.executable, "-m", "pip", command, "-q", "--no-deps", "--require-hashes",
         "--only-binary=:all:", "--implementation=cp", f"--python-version={python}",
         *(f"--platform={name}" for name in platforms), "--disable-pip-version-check", *words],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"tools/package: pip {command} for Python {python}:\n{done.stderr}")


def fetch(python: str) -> Path:
    """A folder with the wheels for a Python, which are got when they have changed."""
    folder = CACHE / python
    wanted = requirements()
    digest = hashlib.sha256(wanted.encode()).hexdigest()
    done = folder / "done"
    if done.exists() and done.read_text() == digest:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(wanted)
        file.flush()
        _pip("download", python, "--dest", str(folder), "-r", file.name)
    done.write_text(digest)
    return folder


def install(python: str, wheel: Path, target: Path) -> None:
    """Put hostcc's own wheel and what it needs into a folder of modules."""
    folder = fetch(python)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(requirements())
        file.flush()
        _pip(
            "install", python, "--no-index", "--find-links", str(folder), "--no-compile",
            "--target", str(target), "-r", file.name,
        )  # fmt: skip
    shutil.rmtree(target / "bin", ignore_errors=True)
    for pattern in LEFT_OUT:
        for path in list(target.rglob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        for one in archive.infolist():
            made = Path(archive.extract(one, target))
            made.chmod((one.external_attr >> 16) & 0o777 or 0o644)
    for path in target.rglob(".gitignore"):
        path.unlink()


if __name__ == "__main__":
    for version in PYTHONS:
        print(fetch(version))
