"""The files of a package as they lie on a host."""

from __future__ import annotations

import gzip
import os
import shutil
import tomllib
from pathlib import Path

from tools import completion
from tools.packages import vendor
from tools.packages.hosts import Host

TOP = Path(__file__).resolve().parents[2]
PACKAGING = TOP / "packaging"
HOME = "usr/lib/hostcc"
"""A virtual environment with all that is Python."""
LAUNCHER = """\
#!/bin/sh
# Neither the environment nor the working directory changes which modules are loaded.
exec /{home}/bin/python3 -I -m hostcc "$@"
"""
ENVIRONMENT = """\
home = /usr/bin
include-system-site-packages = true
version = {python}
"""
"""The system's packages come last: of them only pyverbs is used."""


def version() -> str:
    """The number in pyproject.toml."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def write(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    """Make a file, and the folders to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)


def packed(content: bytes) -> bytes:
    """As gzip packs it, without a time."""
    return gzip.compress(content, 9, mtime=0)


def stage(root: Path, host: Host, wheel: Path) -> None:
    """Put the files below `root` that packages of every kind have."""
    home = root / HOME
    vendor.install(host.python, wheel, home / f"lib/python{host.python}/site-packages")
    write(home / "pyvenv.cfg", ENVIRONMENT.format(python=host.python))
    (home / "bin").mkdir()
    (home / "bin/python3").symlink_to(f"../../../bin/python{host.python}")
    write(root / "usr/bin/hostcc", LAUNCHER.format(home=HOME), 0o755)
    write(root / "etc/hostcc/hostcc.toml", (PACKAGING / "hostcc.toml").read_bytes())
    units = root / "usr/lib/systemd/system"
    write(units / "hostcc.service", (PACKAGING / "hostcc.service").read_bytes())
    write(root / "usr/lib/sysusers.d/hostcc.conf", (PACKAGING / "hostcc.sysusers").read_bytes())
    for script in sorted((PACKAGING / "slurm").iterdir()):
        write(home / "slurm" / script.name, script.read_bytes(), script.stat().st_mode & 0o755)
    page = (TOP / "docs/man/hostcc.1").read_bytes()
    write(root / "usr/share/man/man1/hostcc.1.gz", packed(page))


def add_completions(root: Path, zsh: str, fish: str) -> None:
    """Write the completions, those of zsh and fish where the distribution has them."""
    made = completion.files()
    folders = {
        "hostcc": "usr/share/bash-completion/completions",
        "_hostcc": zsh,
        "hostcc.fish": fish,
    }
    for name, folder in folders.items():
        write(root / folder / name, made[name])


def settle(root: Path, epoch: int) -> None:
    """Give everything the modes and the time that it has on every builder's machine."""
    for path in [root, *sorted(root.rglob("*"))]:
        if not path.is_symlink():
            program = path.stat().st_mode & 0o100 and ".so" not in path.name
            path.chmod(0o755 if path.is_dir() or program else 0o644)
        os.utime(path, (epoch, epoch), follow_symlinks=False)


def size_kib(root: Path) -> int:
    """What the files need."""
    sizes = (path.lstat().st_size for path in root.rglob("*") if not path.is_dir())
    return sum(-(-size // 1024) for size in sizes)


def removed(path: Path) -> Path:
    """The same path, with nothing there."""
    shutil.rmtree(path, ignore_errors=True)
    return path
