"""Runs a container of a pod's specification as a runtime does: its namespaces, mounts and rights.

The image is this machine's files, read-only, with `hostcc` in it.  The host's network is a
namespace of the test's, so that nothing else of this machine is managed; its PID namespace is the
host's own.  In place of PID 1, whose namespaces a sandbox may hide, stands the test's own process.
Not here: seccomp and AppArmor.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hostcc.lab import netns
from tests import patience
from tests.groups import entering

TOP = Path(__file__).parents[2]
CAPABILITIES = (
    "chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill", "setgid", "setuid",
    "setpcap", "linux_immutable", "net_bind_service", "net_broadcast", "net_admin", "net_raw",
    "ipc_lock", "ipc_owner", "sys_module", "sys_rawio", "sys_chroot", "sys_ptrace", "sys_pacct",
    "sys_admin", "sys_boot", "sys_nice", "sys_resource", "sys_time", "sys_tty_config", "mknod",
    "lease", "audit_write", "audit_control", "setfcap", "mac_override", "mac_admin", "syslog",
    "wake_alarm", "block_suspend", "audit_read", "perfmon", "bpf", "checkpoint_restore",
)  # fmt: skip
"""By number (include/uapi/linux/capability.h)."""

ROOT = r"""
set -eu
mount --make-rprivate /
mount -t tmpfs none "$BUNDLE"
mkdir "$BUNDLE/over" "$BUNDLE/work" "$BUNDLE/root"
mount -t overlay none "$BUNDLE/root" \
	-o "lowerdir=/,upperdir=$BUNDLE/over,workdir=$BUNDLE/work"
cd "$BUNDLE/root"
mkdir -p etc/hostcc run/hostcc usr/local/bin opt/hostcc
mount --rbind "$TOP" opt/hostcc
printf '#!/bin/sh\nPYTHONPATH=/opt/hostcc exec %s -m hostcc "$@"\n' "$PYTHON" >usr/local/bin/hostcc
chmod 755 usr/local/bin/hostcc
mount -t proc none proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro none sys
mount -t tmpfs -o mode=755 none dev
mkdir dev/shm
mount -t tmpfs none dev/shm
for device in null zero full random urandom tty; do
	touch "dev/$device"
	mount --bind "/dev/$device" "dev/$device"
done
"""
ENTER = r"""
mount -o remount,ro .
pivot_root . .
umount -l .
cd /
exec setpriv --bounding-set "$RIGHTS" --inh-caps=-all --reuid "$ID" --regid "$GID" --clear-groups \
	"$@"
"""


def held() -> set[str]:
    """The capabilities that this machine lets a process have."""
    status = Path("/proc/self/status").read_text()
    mask = int(next(line for line in status.splitlines() if line.startswith("CapBnd"))[7:], 16)
    return {name for number, name in enumerate(CAPABILITIES) if mask >> number & 1}


def rights(context: Mapping[str, Any]) -> set[str]:
    """The capabilities of a security context, by their names in lower case."""
    assert context["capabilities"]["drop"] == ["ALL"]
    return {name.lower() for name in context["capabilities"]["add"]}


class Container:
    """One container of a pod; `files`: what its ConfigMaps hold, `host`: where the host's paths
    are."""

    def __init__(
        self,
        pod: Mapping[str, Any],
        container: Mapping[str, Any],
        files: Mapping[str, Mapping[str, str]],
        host: Mapping[str, Path],
        folder: Path,
        namespace: str,
        group: Path,
    ) -> None:
        assert pod["hostPID"]
        assert pod["hostNetwork"]
        context = container["securityContext"]
        assert not context["privileged"]
        folder.mkdir(exist_ok=True)
        self._files = dict(files)
        self._host = host
        self._folder = folder
        self.log_path = folder / "log"
        bundle = folder / "bundle"
        bundle.mkdir(exist_ok=True)
        volumes = {one["name"]: one for one in pod["volumes"]}
        lines = [
            self._mount(volumes[one["name"]], one)
            for one in sorted(container["volumeMounts"], key=lambda one: str(one["mountPath"]))
        ]
        granted = rights(context) & held()
        words = list(container["command"])
        words[words.index("--target=1")] = f"--target={os.getpid()}"
        environ = {
            "PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "BUNDLE": str(bundle),
            "TOP": str(TOP),
            # A checkout below /tmp is hidden by the pod's own.
            "PYTHON": sys.executable.replace(f"{TOP}/", "/opt/hostcc/"),
            "RIGHTS": ",".join(["-all", *(f"+{name}" for name in sorted(granted))]),
            "ID": str(context["runAsUser"]),
            "GID": str(context["runAsGroup"]),
            "NODE_NAME": "node1",
        }
        unshared = ["unshare", "--mount", "--ipc", "--cgroup"]
        with self.log_path.open("a") as log:
            self.process = subprocess.Popen(
                [
                    *entering([group]),
                    *("nsenter", f"--net={netns.NAMESPACE_DIRECTORY / namespace}", *unshared),
                    *("sh", "-c", "\n".join([ROOT, *lines, ENTER]), "sh", *words),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environ,
                text=True,
            )

    def _mount(self, volume: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
        """The commands that mount a volume, inside of the new root."""
        at = shlex.quote(str(wanted["mountPath"]).lstrip("/"))
        if "emptyDir" in volume:
            return f"mount -t tmpfs -o mode=1777 none {at}"
        if "configMap" in volume:
            # A folder of a ConfigMap is writable for all; a file of it is mounted alone.
            text = self._files[volume["configMap"]["name"]][wanted["subPath"]]
            source = self._folder / wanted["subPath"]
            source.write_text(text)
            source.chmod(volume["configMap"]["defaultMode"])
            made = f"mkdir -p {Path(at).parent} && touch {at}"
        else:
            path = volume["hostPath"]["path"]
            source = self._host.get(path, Path(path))
            if volume["hostPath"]["type"] == "DirectoryOrCreate":
                source.mkdir(exist_ok=True)
            made = f"mkdir -p {at} 2>/dev/null || [ -d {at} ]"
        lines = [made, f"mount --rbind {shlex.quote(str(source))} {at}"]
        if wanted.get("readOnly"):
            lines.append(f"mount -o remount,bind,ro {at}")
        return "\n".join(lines)

    def log(self) -> str:
        """What it said."""
        return self.log_path.read_text()

    def granted(self) -> set[str]:
        """The capabilities that its process has."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        lines = dict(line.partition(":")[::2] for line in status.splitlines())
        assert lines["CapPrm"] == lines["CapEff"] == lines["CapBnd"]
        mask = int(lines["CapEff"], 16)
        return {name for number, name in enumerate(CAPABILITIES) if mask >> number & 1}

    def stop(self) -> int:
        """As Kubernetes ends it."""
        self.process.terminate()
        return self.process.wait(120)

    def close(self) -> None:
        """End it whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def until(self, true: Any, what: str) -> None:
        """Wait for something while it runs."""
        patience.until(
            lambda: self.process.poll() is not None or true(), lambda: f"{what}\n{self.log()}", 120
        )
        assert self.process.poll() is None, f"{what}\n{self.log()}"
