"""An .rpm by rpmbuild, from packaging/hostcc.spec and a staged tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tools.packages import tree
from tools.packages.hosts import EL_9, machine


def build(out: Path, wheel: Path) -> Path:
    """Make the package for EL 9 and leave it in `out`."""
    if shutil.which("rpmbuild") is None:
        raise SystemExit("tools/package: no rpmbuild; tools/setup --with-packages installs it")
    with tempfile.TemporaryDirectory(prefix="hostcc-rpm-") as scratch:
        root = Path(scratch, "root")
        tree.stage(root, EL_9, wheel)
        tree.add_completions(
            root, "usr/share/zsh/site-functions", "usr/share/fish/vendor_completions.d"
        )
        preset = (tree.PACKAGING / "hostcc.preset").read_bytes()
        tree.write(root / "usr/lib/systemd/system-preset/90-hostcc.preset", preset)
        for name in ("LICENSE", "CHANGELOG.md"):
            tree.write(root / "usr/share/doc/hostcc" / name, (tree.TOP / name).read_bytes())
        tree.settle(root, int(os.environ.get("SOURCE_DATE_EPOCH", "0")) or 1)
        values = {
            "_topdir": f"{scratch}/top",
            "_rpmdir": scratch,
            "staged": str(root),
            "hostcc_version": tree.version(),
            "hostcc_release": f"1{EL_9.suffix}",
            "hostcc_python": EL_9.python,
        }
        done = subprocess.run(
            ["rpmbuild", "-bb", f"--target={machine()}-linux",
             *(word for name, value in values.items() for word in ("-D", f"{name} {value}")),
             str(tree.PACKAGING / "hostcc.spec")],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"tools/package: rpmbuild:\n{done.stdout}{done.stderr}")
        (made,) = Path(scratch).glob("*/hostcc-*.rpm")
        return Path(shutil.copy(made, out / made.name))
