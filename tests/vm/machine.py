"""Run one command as root in a small virtual machine with another kernel.

QEMU without KVM (TCG) boots an unpacked Debian kernel package on the host's own root file
system, read-only, with a tmpfs on top: nothing that the command does is kept.

While it works, the guest's clock counts instructions, so that a busy host makes it slower but
none of its deadlines shorter; this takes one processor.  The host gives up on a guest that
says nothing while it may run, never on one that is slow or waits for a processor.  Its timing says
nothing about real machines.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.vm import guest
from tests.vm.fair_clock import fair_clock

REPOSITORY = Path(__file__).parents[2]
KERNEL_TREE = REPOSITORY / ".vm/kernel"
"""Where tools/setup --with-vm unpacks the kernel package."""
CACHE = REPOSITORY / ".vm/cache"
MEMORY_MIB = 2048
INSTRUCTION_SHIFT = 1
"""An instruction takes 2 to this power nanoseconds of the guest's time."""
SILENCE_S, LAST_WORDS_S = 300.0, 60.0
"""A guest that says nothing for so long, by a clock that stands still while it has no processor, is
stuck, and has this long to say where."""
LOOK_S = 5.0
BOOTS = 3
"""At most: one was seen that had no word of its first process after five minutes of work."""
REPORT = "REPORT "
"""The line that starts so holds a command's answer, one JSON object."""


Fill = Callable[[Path], None]
"""Writes `init`, the guest's second script, and what that needs, into a folder of the guest."""


@dataclass(frozen=True)
class Outcome:
    """What the command printed and returned; `status` is None when the machine died first."""

    status: int | None
    output: str
    console: str


class Machine:
    """A guest that runs one command in the repository, then powers off."""

    def __init__(self, fill: Fill, tree: Path = KERNEL_TREE) -> None:
        CACHE.mkdir(exist_ok=True)
        self._directory = tempfile.TemporaryDirectory(prefix="hostcc-vm-")
        self._control = Path(self._directory.name)
        fill(self._control)
        kernel, initramfs = guest.kernel(tree, CACHE), guest.initramfs(tree, CACHE)
        self._process = subprocess.Popen(
            _qemu(self._control, kernel, initramfs),
            # An open pipe: with /dev/null for input the guest's writes block for ever.
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._clock = fair_clock(self._process.pid)
        self._said = b""

    def starts(self) -> bool:
        """Wait for the guest's first word; False when there was none."""
        deadline = self._clock() + SILENCE_S
        while guest.STARTED not in self.console():
            if self._process.poll() is not None or self._clock() > deadline:
                return False
            time.sleep(0.2)
        return True

    def ask(self, question: str) -> dict[str, Any]:
        """Write a line that the command reads; the report that it answers with."""
        assert self._process.stdin is not None
        begin = len(self._said)
        self._process.stdin.write(f"{question}\n".encode())
        self._process.stdin.flush()
        while (answer := reported(self._said[begin:])) is None:
            more = self._more()
            assert more, f"{question}: the guest ended\n{described(self.end())}"
        return answer

    def end(self) -> Outcome:
        """What the command said until it ended."""
        while self._more():
            pass
        self._process.wait()
        status = self._control / "status"
        return Outcome(
            int(status.read_text()) if status.exists() else None,
            self._said.decode(errors="replace").replace("\r\n", "\n"),
            self.console(),
        )

    def close(self) -> None:
        """Switch it off."""
        self._process.kill()
        self._process.communicate()
        self._directory.cleanup()

    def console(self) -> str:
        """How far it came, and what its kernel complained of."""
        console = self._control / "console"
        return console.read_text(errors="replace") if console.exists() else ""

    def _more(self) -> bytes:
        """What it says next; empty: it has ended."""
        assert self._process.stdout is not None
        output = self._process.stdout.fileno()
        more = read_on(output, self._ask_where, self._process.kill, self._clock)
        self._said += more
        return more

    def _ask_where(self) -> None:
        (self._control / "stuck").touch()


def boot(command: list[str], tree: Path = KERNEL_TREE) -> Machine:
    """A guest with the kernel of a tree that has started a command on the host's root."""

    def fill(control: Path) -> None:
        (control / "init").write_text(guest.second_init(tree, REPOSITORY, command))

    return boot_filled(fill, tree)


def boot_filled(fill: Fill, tree: Path = KERNEL_TREE) -> Machine:
    """A guest that has started; what does not start is booted again."""
    console = ""
    for _ in range(BOOTS):
        machine = Machine(fill, tree)
        try:
            if machine.starts():
                return machine
            console = machine.console()
        except BaseException:
            machine.close()
            raise
        machine.close()
    raise AssertionError(f"no guest has started\n{console[-2000:]}\nthe host: {host_load()}")


def run(command: list[str], tree: Path = KERNEL_TREE) -> Outcome:
    """Boot, run `command`, power off."""
    machine = boot(command, tree)
    try:
        return machine.end()
    finally:
        machine.close()


def read_on(
    output: int,
    ask_where: Callable[[], None],
    kill: Callable[[], None],
    clock: Callable[[], float],
    limits_s: tuple[float, float] = (SILENCE_S, LAST_WORDS_S),
) -> bytes:
    """What comes next, empty at the end; who is silent is asked where it is, then killed."""
    for limit_s, then in zip(limits_s, (ask_where, kill), strict=True):
        if _comes(output, clock, limit_s):
            break
        then()
    return os.read(output, 1 << 16)


def _comes(output: int, clock: Callable[[], float], limit_s: float) -> bool:
    left_s, then_s = limit_s, clock()
    while not select.select([output], [], [], max(0.0, min(LOOK_S, left_s)))[0]:
        now_s = clock()
        left_s -= min(LOOK_S, now_s - then_s)  # more: this process was stopped itself
        then_s = now_s
        if left_s <= 0:
            return False
    return True


def reported(said: bytes) -> dict[str, Any] | None:
    """The first whole report in what was said."""
    _, found, rest = said.decode(errors="replace").partition(REPORT)
    line, ended, _ = rest.partition("\n")
    if not found or not ended:
        return None
    report: dict[str, Any] = json.loads(line)
    return report


def described(outcome: Outcome) -> str:
    """Everything that is known of an outcome that nobody wanted."""
    return "\n".join(
        [outcome.output, outcome.console[-2000:], f"status {outcome.status}; host: {host_load()}"]
    )


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
        "-accel", "tcg,thread=single,tb-size=512", "-icount", f"shift={INSTRUCTION_SHIFT}",
        "-cpu", "max", "-M", "pc",
        "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-m", str(MEMORY_MIB), "-smp", "1,maxcpus=2",
        "-kernel", str(kernel), "-initrd", str(initramfs), "-append", append,
        "-serial", f"file:{control}/console", "-device", "virtio-serial-pci",
        "-chardev", "stdio,id=out,signal=off", "-device", "virtserialport,chardev=out,name=out",
        *share(Path("/"), "root", ",readonly=on"), *share(control, "ctl"),
    ]  # fmt: skip
