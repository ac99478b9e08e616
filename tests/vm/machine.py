"""Run one command as root in a small virtual machine with another kernel.

QEMU without KVM (TCG) boots an unpacked Debian kernel package on the host's own root file
system, read-only, with a tmpfs on top: nothing that the command does is kept.  Its timing
says nothing about real machines.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from tests.vm import guest

REPOSITORY = Path(__file__).parents[2]
KERNEL_TREE = REPOSITORY / ".vm/kernel"
"""Where tools/setup --with-vm unpacks the kernel package."""
MEMORY_MIB = 2048
START_S, BOOTS = 100.0, 3
"""Seconds until a guest has to say that it has started, and boots at most: one was seen
with both its processors busy for five minutes, and not a word of its first process."""
BOOT_S = 60.0
"""Left of a time limit for the boot, and to tell what a command was doing at its end."""


@dataclass(frozen=True)
class Outcome:
    """What the command printed and returned; `status` is None when the machine died first."""

    status: int | None
    output: str
    console: str


def run(command: list[str], timeout_s: float) -> Outcome:
    """Boot, run `command` in the repository, power off; what did not start is booted again."""
    boots = 1
    outcome = _run(command, timeout_s)
    while outcome.status is None and guest.STARTED not in outcome.console and boots < BOOTS:
        boots += 1
        outcome = _run(command, timeout_s)
    return outcome


def _run(command: list[str], timeout_s: float) -> Outcome:
    cache = KERNEL_TREE.parent / "cache"
    cache.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hostcc-vm-") as name:
        control = Path(name)
        script = guest.second_init(KERNEL_TREE, REPOSITORY, command, timeout_s - BOOT_S)
        (control / "init").write_text(script)
        machine = subprocess.Popen(
            _qemu(control, guest.kernel(KERNEL_TREE, cache), guest.initramfs(KERNEL_TREE, cache)),
            # An open pipe: with /dev/null for input the guest's writes block for ever.
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        status, console = control / "status", control / "console"

        def said() -> str:
            return console.read_text(errors="replace") if console.exists() else ""

        def started() -> None:
            if guest.STARTED not in said():
                machine.kill()

        watchdogs = threading.Timer(timeout_s, machine.kill), threading.Timer(START_S, started)
        for watchdog in watchdogs:
            watchdog.start()
        try:
            assert machine.stdout is not None
            output = machine.stdout.read().decode(errors="replace").replace("\r\n", "\n")
        finally:
            for watchdog in watchdogs:
                watchdog.cancel()
            machine.kill()
            machine.communicate()
        return Outcome(int(status.read_text()) if status.exists() else None, output, said())


def host_load() -> str:
    """What else runs on the host: an emulator that has no processor looks like one that hangs."""
    listed = subprocess.run(
        ["ps", "-eo", "pcpu,etimes,ni,args", "--sort=-pcpu"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return "\n".join([f"load {os.getloadavg()}", *listed.stdout.splitlines()[:6]])


def _qemu(control: Path, kernel: Path, initramfs: Path) -> list[str]:
    def share(path: Path, tag: str, more: str = "") -> list[str]:
        device = f"local,id=fs{tag},path={path},security_model=none,multidevs=remap{more}"
        return ["-fsdev", device, "-device", f"virtio-9p-pci,fsdev=fs{tag},mount_tag={tag}"]

    append = (
        "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable no_timer_check"
        " random.trust_cpu=on apparmor=0 audit=0 net.ifnames=0"
    )
    return [
        "qemu-system-x86_64",
        "-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max", "-M", "pc",
        "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-m", str(MEMORY_MIB), "-smp", "2",
        "-kernel", str(kernel), "-initrd", str(initramfs), "-append", append,
        "-serial", f"file:{control}/console", "-device", "virtio-serial-pci",
        "-chardev", "stdio,id=out,signal=off", "-device", "virtserialport,chardev=out,name=out",
        *share(Path("/"), "root", ",readonly=on"), *share(control, "ctl"),
    ]  # fmt: skip
