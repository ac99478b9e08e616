"""This machine's files with a package installed, and nothing of it kept: an overlay in memory.

Scripts run by chroot in namespaces of their own for mounts, processes and the network, so a service
manager of this machine is neither seen nor asked.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

BEGIN = "== left behind"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Of what lies above the machine's files, what is not there below: made, and not removed again.
OUTSIDE = """
set -e
w={scratch}
mount -t tmpfs -o size=75% tmpfs $w
mkdir $w/u $w/w $w/m
mount -t overlay -o lowerdir=/,upperdir=$w/u,workdir=$w/w overlay $w/m
cd $w/m
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
ip link set lo up
cp {given} tmp/
cp {script} tmp/script
status=0
chroot . /bin/sh -e /tmp/script || status=$?
echo '{begin}'
find run -mindepth 1 ! -type d
cd ../u
find . -mindepth 1 | while read -r path; do [ -e "/$path" ] || [ -c "$path" ] || echo "$path"; done
exit $status
"""
OURS_TO_KEEP = (
    "./tmp", "./run", "./var/lib/dpkg", "./var/lib/rpm", "./var/cache", "./var/log",
    "./var/lib/systemd/deb-systemd-helper", "./root/.rpmdb",
)  # fmt: skip
"""What tells of installations in general."""


class Installed:
    """What a script said, and which files it left behind."""

    def __init__(self, folder: Path, script: str, given: Path) -> None:
        scratch = folder / "overlay"
        scratch.mkdir()
        inside = folder / "script"
        inside.write_text(f"cd /; export PATH={PATH} DEBIAN_FRONTEND=noninteractive\n{script}")
        words = OUTSIDE.format(scratch=scratch, given=given, script=inside, begin=BEGIN)
        # The first process ends last, and all others of its namespace with it.
        done = subprocess.run(
            ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", words],
            env={"PATH": PATH, "LANG": "C.UTF-8", "HOME": "/root"},
            capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
        self.output, _, left = done.stdout.partition(BEGIN)
        self.errors = done.stderr
        assert done.returncode == 0, f"{self.output}\n{self.errors}"
        self.left = [one for one in left.split() if not one.startswith(OURS_TO_KEEP)]
