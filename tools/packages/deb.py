"""A .deb by dpkg-deb: the tree, and what dpkg has to know of it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import time
from email.utils import formatdate
from pathlib import Path

from tools.packages import tree
from tools.packages.hosts import DEBIAN_ARCHITECTURES, Host, machine

SCRIPTS = ("postinst", "prerm", "postrm")
CONTROL = """\
Package: hostcc
Version: {version}
Architecture: {architecture}
Maintainer: {maintainer}
Installed-Size: {size}
Depends: {depends}
Recommends: python3-pyverbs
Section: net
Priority: optional
Description: host-side congestion and path agent for machine-learning clusters
 hostcc makes training jobs share a network well, without help from switches,
 jobs or a scheduler.  It measures when jobs communicate, lets them take turns
 by a congestion control in BPF, and moves flows off shared links.
 .
 This package carries the Python packages that it needs.
"""
CHANGES = """\
hostcc ({version}) {suite}; urgency=medium

  * Changes are listed in /usr/share/doc/hostcc/NEWS.md.gz.

 -- {maintainer}  {date}
"""
MAINTAINER = "hostcc maintainers <hostcc@localhost>"
"""Unless DEBFULLNAME and DEBEMAIL, which Debian's tools read, name another one."""


def maintainer() -> str:
    """Who builds the package."""
    name, address = os.environ.get("DEBFULLNAME"), os.environ.get("DEBEMAIL")
    return f"{name} <{address}>" if name and address else MAINTAINER


def depends(host: Host) -> str:
    """What has to be on the host; the carried packages are compiled for one Python."""
    major, minor = map(int, host.python.split("."))
    return ", ".join(
        [
            f"python3 (>= {host.python}~)",
            f"python3 (<< {major}.{minor + 1}~)",
            "libbpf1 (>= 1:1.1) | libbpf1 (>= 1.1)",
            "iproute2",
            "libc6 (>= 2.28)",
            "libstdc++6",
            "systemd | systemd-standalone-sysusers | systemd-sysusers",
        ]
    )


def build(out: Path, host: Host, wheel: Path) -> Path:
    """Make the package for a host and leave it in `out`."""
    version = f"{tree.version()}-1{host.suffix}"
    architecture = DEBIAN_ARCHITECTURES[machine()]
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or _changed())
    with tempfile.TemporaryDirectory(prefix="hostcc-deb-") as scratch:
        root = Path(scratch, "root")
        tree.stage(root, host, wheel)
        tree.add_completions(
            root, "usr/share/zsh/vendor-completions", "usr/share/fish/vendor_completions.d"
        )
        facts = {
            "version": version,
            "architecture": architecture,
            "maintainer": maintainer(),
            "suite": host.suite,
            "date": formatdate(epoch),
            "depends": depends(host),
        }
        _documents(root, facts)
        tree.settle(root, epoch)
        _control(root, facts | {"size": str(tree.size_kib(root))})
        tree.settle(root / "DEBIAN", epoch)
        made = out / f"hostcc_{version}_{architecture}.deb"
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Zxz", "-z2", "--build", str(root), str(made)],
            env=os.environ | {"SOURCE_DATE_EPOCH": str(epoch)},
            stdout=subprocess.DEVNULL, check=True,
        )  # fmt: skip
    return made


def _changed() -> float:
    """When the version was written, or now where that is not known."""
    done = subprocess.run(
        ["git", "-C", str(tree.TOP), "log", "-1", "--format=%ct"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return float(done.stdout) if done.stdout.strip() else time.time()


def _documents(root: Path, facts: dict[str, str]) -> None:
    folder = root / "usr/share/doc/hostcc"
    tree.write(folder / "copyright", (tree.PACKAGING / "debian/copyright").read_bytes())
    tree.write(folder / "NEWS.md.gz", tree.packed((tree.TOP / "CHANGELOG.md").read_bytes()))
    changes = CHANGES.format_map(facts).encode()
    tree.write(folder / "changelog.Debian.gz", tree.packed(changes))
    overrides = (tree.PACKAGING / "debian/lintian-overrides").read_bytes()
    tree.write(root / "usr/share/lintian/overrides/hostcc", overrides)


def _control(root: Path, facts: dict[str, str]) -> None:
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and not path.is_symlink()]
    sums = "".join(
        f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}  "
        f"{path.relative_to(root)}\n"
        for path in files
    )
    folder = root / "DEBIAN"
    tree.write(folder / "md5sums", sums)
    tree.write(folder / "control", CONTROL.format_map(facts))
    tree.write(folder / "conffiles", "/etc/hostcc/hostcc.toml\n")
    for name in SCRIPTS:
        tree.write(folder / name, (tree.PACKAGING / "debian" / name).read_bytes(), 0o755)
