"""A guest that boots a Debian of its own, with systemd, instead of the host's files."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

from tests.vm import guest, machine

TREE = machine.REPOSITORY / ".vm/debian"
"""Where tools/setup --with-fleet puts the smallest Debian that has systemd and Python."""

# The first process of the host's root becomes that of Debian's.  systemd keeps what is mounted.
INIT = """
echo {started} >/dev/ttyS0
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mkdir -p /tmp/d
mount -t tmpfs -o size=60% tmpfs /tmp/d
mkdir /tmp/d/u /tmp/d/w /tmp/d/m
mount -t overlay -o lowerdir={tree},upperdir=/tmp/d/u,workdir=/tmp/d/w overlay /tmp/d/m
cd /tmp/d/m
mkdir -p old lib/modules
mount --bind {modules} lib/modules
mount --bind /run/vm mnt
for d in proc sys dev; do mount --rbind /$d $d; done
for try in 1 2 3 4 5 6 7 8 9 10; do
  for p in /sys/class/virtio-ports/*; do
    [ "$(cat $p/name 2>/dev/null)" = out ] && PORT=/dev/${{p##*/}}
  done
  [ -n "$PORT" ] && break
  sleep 0.2
done
cat >etc/systemd/system/in-guest.service <<END
[Unit]
DefaultDependencies=no
After=sysinit.target
[Service]
Type=oneshot
ExecStart=/bin/sh /mnt/run $PORT
END
mkdir -p etc/systemd/system/multi-user.target.wants
ln -s ../in-guest.service etc/systemd/system/multi-user.target.wants/
echo "prepared, output $PORT" >/dev/ttyS0
pivot_root . old
exec chroot . /sbin/init systemd.log_target=console </dev/null >/dev/ttyS0 2>&1
"""

RUN = """
exec >$1 2>&1
{command}
echo $? >/mnt/status
sync
systemctl poweroff -ff
"""


def boot(kernel_tree: Path, script: Path, *files: Path) -> machine.Machine:
    """Run a script, which finds itself and the files in /mnt; the last ones are its arguments."""
    names = [f"/mnt/{one.name}" for one in files]
    init = INIT.format(
        started=guest.STARTED,
        tree=shlex.quote(str(TREE)),
        modules=shlex.quote(str(kernel_tree / "lib/modules")),
    )
    run = RUN.format(command=shlex.join(["sh", f"/mnt/{script.name}", *names]))

    def fill(control: Path) -> None:
        (control / "init").write_text(init)
        (control / "run").write_text(run)
        for one in (script, *files):
            shutil.copy(one, control / one.name)

    return machine.boot_filled(fill, kernel_tree)
