"""The context of a container image: the recipe and the .deb that it installs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tools.packages import tree

BUILDERS = ("podman", "buildah", "docker")


def build(out: Path, package: Path) -> Path:
    """Make the context in `out`, and the image of it where a builder is installed."""
    context = tree.removed(out / "oci")
    context.mkdir()
    shutil.copy(tree.PACKAGING / "Containerfile", context)
    shutil.copy(package, context / "hostcc.deb")
    builder = next((one for one in BUILDERS if shutil.which(one)), None)
    if builder is not None:
        tag = f"hostcc:{tree.version()}"
        subprocess.run([builder, "build", "--tag", tag, str(context)], check=True)
    return context
