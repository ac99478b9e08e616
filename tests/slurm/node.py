"""A node with Slurm's daemons, accounting and an agent, in namespaces and cgroups of its own.

/etc, /run and /usr/lib are the host's with a layer of the node's own over them, so that commands of
the documentation run as they stand, and leave nothing.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hostcc.lab import netns
from tests import groups, patience

TOP = Path(__file__).parents[2]
FREEZER = Path("/sys/fs/cgroup/freezer")
ADDRESS = "10.77.0.1"
"""On loopback; Slurm looks its node up with AI_ADDRCONFIG, which 127.0.0.1 does not satisfy."""
USER = "nobody"

BEGIN = r"""
set -eu
mount --make-rprivate /
hostname node1
if [ -n "$FREEZER" ]; then
	umount -R -l /sys/fs/cgroup
	mount -t tmpfs -o mode=755 none /sys/fs/cgroup
	mkdir /sys/fs/cgroup/freezer /sys/fs/cgroup/unified
	mount -t cgroup -o freezer none /sys/fs/cgroup/freezer
	mount -t cgroup2 none /sys/fs/cgroup/unified
else
	mount -t cgroup2 none /sys/fs/cgroup
fi
mount -t tmpfs -o mode=755 none /mnt
for part in etc usr/lib usr/local; do
	mkdir -p "/mnt/over/$part" "/mnt/work/$part"
	mount -t overlay none "/$part" \
		-o "lowerdir=/$part,upperdir=/mnt/over/$part,workdir=/mnt/work/$part"
done
# What a user may not read of the host, as the Python that hostcc runs by, the user may here.
for part in $HIDDEN; do
	mkdir -p "/mnt/over$part" "/mnt/work$part"
	mount -t overlay none "$part" \
		-o "lowerdir=$part,upperdir=/mnt/over$part,workdir=/mnt/work$part"
	chmod o+x "$part"
done
mount -t tmpfs -o mode=755 none /run
mkdir -p /run/munge /run/slurm /run/db /mnt/spool/d /mnt/spool/c /mnt/db /mnt/log
mkdir -m 1777 /mnt/jobs
head -c 128 /dev/urandom >/mnt/munge.key
chmod 600 /mnt/munge.key
echo "$ADDRESS node1" >>/etc/hosts
printf '#!/bin/sh\nPYTHONPATH=%s exec %s -m hostcc "$@"\n' "$TOP" "$PYTHON" >/usr/local/bin/hostcc
chmod 755 /usr/local/bin/hostcc
mkdir -p /etc/slurm /etc/hostcc
groupadd -f hostcc
usermod -aG hostcc "$JOB_USER"
touch /run/ready
exec sleep infinity
"""
SLURM = """
ClusterName=test
SlurmctldHost=node1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation=/mnt/spool/c
SlurmdSpoolDir=/mnt/spool/d
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
ProctrackType={tracking}
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=node1
AccountingStorageEnforce=qos
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1
MpiDefault=none
MailProg=/bin/true
SlurmdParameters=config_overrides
NodeName=node1 CPUs=4 RealMemory=500
PartitionName=batch Nodes=node1 Default=YES MaxTime=INFINITE OverSubscribe=YES
"""
DATABASE = """
AuthType=auth/munge
DbdHost=node1
SlurmUser=root
PidFile=/run/slurm/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
"""
ACCOUNTS = f"""
sacctmgr -i add cluster test
sacctmgr -i add account research
sacctmgr -i add qos high
sacctmgr -i add user {USER} account=research qos=normal,high
"""


def hidden(paths: Sequence[Path]) -> list[str]:
    """Folders on the way to these that only their owner may enter, from the top."""
    above = {folder for path in paths for folder in path.parents}
    return [str(one) for one in sorted(above) if not one.stat().st_mode & stat.S_IXOTH]


class Node:
    """Everything that runs on it is in its cgroups, and ends with it."""

    def __init__(self, folder: Path, cgroup2: Path) -> None:
        self.name = f"hcct-{uuid.uuid4().hex[:6]}"
        self.folder = folder
        self.groups = [cgroup2 / self.name]
        if FREEZER.is_dir():
            self.groups.append(FREEZER / self.name)
        for group in self.groups:
            group.mkdir()
        netns.create([self.name])
        netns.batch("ip", [f"address add {ADDRESS}/32 dev lo"], self.name)
        self.processes: list[subprocess.Popen[str]] = []
        environ = {
            "FREEZER": "yes" if FREEZER.is_dir() else "",
            "ADDRESS": ADDRESS,
            "TOP": str(TOP),
            "PYTHON": sys.executable,
            "JOB_USER": USER,
            "HIDDEN": " ".join(hidden([TOP, Path(sys.executable).resolve()])),
        }
        enter = ["nsenter", f"--net=/run/netns/{self.name}", "unshare", "--mount", "--uts"]
        command = [*groups.entering(self.groups), *enter, "--cgroup", "sh", "-c", BEGIN]
        self.holder = self._popen(command, "begin", {**os.environ, **environ})
        self.root = Path(f"/proc/{self.holder.pid}/root")
        # Processes may not stay where cgroups have controllers.
        self.inner = [group / "daemons" for group in self.groups]
        for group in self.inner:
            group.mkdir()
        self.until((self.root / "run/ready").exists, "namespaces", self.holder)

    # What runs on it.

    def start(self, *command: str, **environ: str) -> subprocess.Popen[str]:
        """A daemon, in the foreground."""
        return self._popen([*self._enter(), *command], command[0], {**os.environ, **environ})

    def run(self, *command: str, check: bool = True, uid: int = 0) -> str:
        """A command; its output."""
        user = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"] if uid else []
        done = subprocess.run(
            [*self._enter(), *user, *command],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            cwd="/",
        )
        assert not check or done.returncode == 0, f"{command}: {done.stderr}{self.logs()}"
        return done.stdout

    def file(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write one of its files."""
        where = self.root / path.lstrip("/")
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_text(text)
        where.chmod(mode)

    def start_slurm(self, more: str) -> None:
        """Slurm's daemons with accounting; `more`: the end of slurm.conf."""
        tracking = "proctrack/cgroup" if FREEZER.is_dir() else "proctrack/linuxproc"
        self.file("/etc/slurm/slurm.conf", SLURM.format(tracking=tracking) + more)
        self.file("/etc/slurm/cgroup.conf", "CgroupPlugin=cgroup/v1\n")
        self.file("/etc/slurm/slurmdbd.conf", DATABASE, 0o600)
        munge = ("--key-file=/mnt/munge.key", "--seed-file=/run/munge/seed", "--num-threads=2")
        own = ("--pid-file=/run/munge/munged.pid", "--log-file=/mnt/log/munged", "--force")
        munged = self.start("munged", "--foreground", *munge, *own)
        self.until(lambda: self.works("munge", "-n"), "munged", munged)
        self._start_database()
        controller = self.start("slurmctld", "-D", "-i")
        self.until(lambda: self.works("scontrol", "ping"), "slurmctld", controller)
        worker = self.start("slurmd", "-D", "-N", "node1")
        self.until(lambda: self.state() == "idle", "slurmd", worker)

    def _start_database(self) -> None:
        self.run(
            "mariadb-install-db", "--no-defaults", "--user=root", "--datadir=/mnt/db",
            "--auth-root-authentication-method=normal", "--skip-test-db",
        )  # fmt: skip
        database = self.start(
            "mariadbd", "--no-defaults", "--user=root", "--datadir=/mnt/db", "--socket=/run/db/s",
            "--skip-networking", "--skip-grant-tables", "--innodb-buffer-pool-size=32M",
            "--innodb-flush-log-at-trx-commit=0", "--pid-file=/run/db/pid",
        )  # fmt: skip
        self.until((self.root / "run/db/s").exists, "mariadbd", database)
        keeper = self.start("slurmdbd", "-D", MYSQL_UNIX_PORT="/run/db/s")
        self.until(lambda: self.works("sacctmgr", "-n", "show", "cluster"), "slurmdbd", keeper)
        self.run("sh", "-ec", ACCOUNTS)

    @contextmanager
    def agent(self, text: str) -> Iterator[subprocess.Popen[str]]:
        """An agent with the default paths, which ends well."""
        # It sees all processes of the machine: below this root there are the node's alone.
        where = "/sys/fs/cgroup/unified/daemons" if FREEZER.is_dir() else "/sys/fs/cgroup/daemons"
        keys = {"instance": self.name, "network_namespaces": "own", "cgroup_root": where}
        lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
        self.file("/etc/hostcc/hostcc.toml", "\n".join(["[agent]", *lines, text]))
        agent = self.start("hostcc", "agent")
        try:
            self.until(lambda: self.works("hostcc", "status"), "the agent", agent)
            yield agent
        finally:
            agent.terminate()
            status = agent.wait(120)
        assert status == 0, self.logs()

    # What it says.

    def works(self, *command: str) -> bool:
        """Whether a command succeeds now."""
        return bool(self.run("sh", "-c", '"$@" >&2 && echo yes', "sh", *command, check=False))

    def state(self) -> str:
        """Slurm's word for the node."""
        return self.run("sinfo", "--noheader", "--format=%T", check=False).strip()

    def submit(self, script: str, *options: str) -> int:
        """Hand in a batch job of an ordinary user; its number."""
        command = ["sbatch", "--parsable", "--chdir=/mnt/jobs", *options, f"--wrap={script}"]
        return int(self.run(*command, uid=65534))

    def job_state(self, number: int) -> str:
        """Slurm's word for the job."""
        shown = self.run("scontrol", "show", "job", str(number))
        return next(w[9:] for w in shown.split() if w.startswith("JobState="))

    def jobs(self) -> dict[str, dict[str, Any]]:
        """What `hostcc jobs` says, by name."""
        answer = json.loads(self.run("hostcc", "jobs", "--json"))
        return {row["name"]: row for row in answer["jobs"]}

    def environ(self, path: str) -> dict[str, str]:
        """What a job has written with `env`; empty: nothing yet."""
        where = self.root / "mnt/jobs" / path
        lines = where.read_text().splitlines() if where.exists() else []
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def until(
        self,
        true: Callable[[], object],
        what: str,
        process: subprocess.Popen[str] | None = None,
    ) -> None:
        """Wait for something, and no longer than for the process that does it."""

        def ended() -> bool:
            return process is not None and process.poll() is not None

        patience.until(lambda: ended() or true(), lambda: f"{what}\n{self.logs()}", 120)
        assert not ended(), f"{what}\n{self.logs()}"

    def logs(self) -> str:
        """The ends of what all daemons said."""
        found = {path.name: path.read_text()[-3000:] for path in self.folder.glob("*.log")}
        return "\n".join(f"== {name}\n{text}" for name, text in found.items())

    def close(self) -> None:
        """End all of it, and remove its groups."""
        for process in self.processes:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
        (self.groups[0] / "cgroup.kill").write_text("1")
        for process in self.processes:
            process.wait()
        for root in self.groups:
            groups.remove(root)
        netns.remove([self.name])

    # How processes come to it.

    def _enter(self) -> list[str]:
        return [
            *groups.entering(self.inner),
            *("nsenter", f"--target={self.holder.pid}", "--mount", "--uts", "--net", "--cgroup"),
        ]

    def _popen(
        self, command: Sequence[str], name: str, environ: Mapping[str, str]
    ) -> subprocess.Popen[str]:
        with (self.folder / f"{name}.log").open("a") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environ, cwd="/",
                text=True,
            )  # fmt: skip
        self.processes.append(process)
        return process
