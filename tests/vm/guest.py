"""Files of the guest: its kernel, its first file system, its two start-up scripts."""

from __future__ import annotations

import lzma
import os
import shlex
import shutil
import struct
import subprocess
from pathlib import Path

BUSYBOX = Path("/usr/bin/busybox")
BOOT_MODULES = ("virtio_pci", "9p", "9pnet_virtio", "overlay", "virtio_console")
XZ_MAGIC = b"\xfd7zXZ\0"
STARTED = "started"
"""What the second script says on the console first."""

# In the initramfs: modules, then the host's root, read-only, under a tmpfs.
FIRST_INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /ro /rw /new /bin /sbin
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
while read m; do insmod /m/$m || echo "insmod $m failed"; done < /m/list
O=trans=virtio,version=9p2000.L,msize=512000
mount -t 9p -o ro,$O,cache=loose root /ro || { echo no root; poweroff -f; }
mount -t tmpfs -o size=75% tmpfs /rw; mkdir /rw/u /rw/w
mount -t overlay -o lowerdir=/ro,upperdir=/rw/u,workdir=/rw/w overlay /new
mkdir -p /new/run/vm
mount -t 9p -o $O,cache=none ctl /new/run/vm
for d in proc sys dev; do mount --move /$d /new/$d; done
exec switch_root /new /bin/sh /run/vm/init
"""

# On the host's root: what an init system would mount, then the command, which may read what the
# host writes.  The console says how far a guest came that ends without a word; a Python program
# that the host calls stuck, where it is.
SECOND_INIT = """
echo {started} >/dev/ttyS0
export PYTHONDONTWRITEBYTECODE=1 PYTHONFAULTHANDLER=1 HOME=/root TERM=dumb LANG=C.UTF-8
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mkdir -p /run/netns /dev/pts /dev/shm
mount -t devpts devpts /dev/pts; mount -t tmpfs shm /dev/shm
mount -t bpf bpf /sys/fs/bpf; mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /lib/modules; mount --bind {modules} /lib/modules
hostname vm; ip link set lo up
for try in 1 2 3 4 5 6 7 8 9 10; do
  for p in /sys/class/virtio-ports/*; do
    [ "$(cat $p/name 2>/dev/null)" = out ] && PORT=/dev/${{p##*/}}
  done
  [ -n "$PORT" ] && break
  sleep 0.2
done
echo "prepared, output ${{PORT:-here}}" >/dev/ttyS0
exec 3<>${{PORT:-/dev/ttyS0}} >&3 2>&3 </dev/null
cd {directory}
{command} <&3 &
command=$!
(until [ -e /run/vm/stuck ]; do sleep 3; done; kill -ABRT $command) >/dev/null 2>&1 &
wait $command
echo $? >/run/vm/status
exec >/dev/null 2>&1 3>&-
sync
busybox poweroff -f
"""


def version(tree: Path) -> str:
    """The newest kernel under an unpacked linux-image package."""
    return max(path.name for path in (tree / "lib/modules").iterdir())


def kernel(tree: Path, cache: Path) -> Path:
    """An image that QEMU boots: the ELF out of the bzImage, which saves the guest unpacking it."""
    image = tree / "boot" / f"vmlinuz-{version(tree)}"
    unpacked = cache / image.name
    if not unpacked.exists():
        data = image.read_bytes()
        # Linux boot protocol: setup_sects at 0x1f1, payload_offset and _length at 0x248.
        offset, length = struct.unpack_from("<II", data, 0x248)
        payload = data[(data[0x1F1] + 1) * 512 + offset :][:length]
        if not payload.startswith(XZ_MAGIC):
            return image
        _write(unpacked, lzma.LZMADecompressor().decompress(payload))
    return unpacked


def initramfs(tree: Path, cache: Path) -> Path:
    """busybox, the modules for the root file system, and FIRST_INIT."""
    target = cache / f"initrd-{version(tree)}"
    if target.exists() and target.stat().st_mtime > Path(__file__).stat().st_mtime:
        return target
    root = cache / f"root-{os.getpid()}"
    shutil.rmtree(root, ignore_errors=True)
    (root / "m").mkdir(parents=True)
    (root / "bin").mkdir()
    shutil.copy(BUSYBOX, root / "bin")
    modules = _modules(tree)
    names = [_unpacked(Path(module), root / "m") for module in modules]
    (root / "m/list").write_text("".join(f"{name}\n" for name in names))
    (root / "init").write_text(FIRST_INIT)
    (root / "init").chmod(0o755)
    listed = "\n".join(str(path.relative_to(root)) for path in [root, *sorted(root.rglob("*"))])
    packed = subprocess.run(
        ["cpio", "-o", "-H", "newc", "--quiet"],
        cwd=root, input=listed.encode(), stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    _write(target, packed.stdout)
    shutil.rmtree(root)
    return target


def second_init(tree: Path, directory: Path, command: list[str]) -> str:
    """The script that runs `command` in `directory` on the host's root."""
    return SECOND_INIT.format(
        started=STARTED,
        modules=shlex.quote(str(tree / "lib/modules")),
        directory=shlex.quote(str(directory)),
        command=shlex.join(command),
    )


def _modules(tree: Path) -> list[str]:
    found: list[str] = []
    for name in BOOT_MODULES:
        listed = subprocess.run(
            ["modprobe", "-d", str(tree), "-S", version(tree), "--show-depends", name],
            stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        paths = [line.split()[1] for line in listed.stdout.splitlines() if "insmod" in line]
        found += [path for path in paths if path not in found]
    return found


def _unpacked(module: Path, folder: Path) -> str:
    # busybox loads no compressed module.
    if module.suffix == ".xz":
        (folder / module.stem).write_bytes(lzma.decompress(module.read_bytes()))
    elif module.suffix == ".zst":
        subprocess.run(["zstd", "-dq", str(module), "-o", str(folder / module.stem)], check=True)
    else:
        shutil.copy(module, folder)
        return module.name
    return module.stem


def _write(target: Path, content: bytes) -> None:
    temporary = target.with_name(f"{target.name}.{os.getpid()}")
    temporary.write_bytes(content)
    temporary.replace(target)
