"""What this host can do, what is missing, and how to get it.

Every finding comes from trying, on things made for the trial: a cgroup, a network
namespace, a congestion control under a name of its own.  Nothing stays behind.
"""

from __future__ import annotations

import importlib
import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hostcc.answers.gossip import Gossip
from hostcc.answers.parts import part_of
from hostcc.answers.status import Status
from hostcc.bpf.loader.errors import BpfError
from hostcc.bpf.loader.features import KERNEL_BTF
from hostcc.cli import kernel_probes, nics
from hostcc.cli.common import decoded
from hostcc.cli.findings import Finding, State
from hostcc.client import ask
from hostcc.errors import HostccError, NoAgentError, one_line
from hostcc.system.cgroups import find_mount, how_to_mount

SCHEMA = "hostcc.doctor/1"
BPFFS = Path("/sys/fs/bpf")
NEWER_KERNEL = "a kernel from 6.1 on: apt-get install linux-image-amd64 (Debian 12 and newer), "
NEWER_KERNEL += "linux-image-generic (Ubuntu 24.04)"


PARTS = {
    "discovery": "jobs that nobody started with hostcc run",
    "gpu": "work per iteration",
    "marks": "exact iteration boundaries",
    "history": "the last hour of each job, in hostcc top and hostcc report",
    "memory": "jobs that come again are planned from their first bytes",
    "traffic": "jobs' periods and bytes",
    "rdma": "bytes that bypass sockets",
    "rdma-plan": "paths, classes and turns of RDMA jobs",
    "pcie": "turns at shared PCIe links",
    "dcqcn": "rate parameters of RoCE NICs",
    "gossip": "one view of all hosts",
    "plan": "what the hosts decide together",
    "gates": "jobs that share a link send one after the other",
    "compare": "modes in turns, by hostcc compare",
    "marking": "marks of packets by level",
    "egress": "this host's queues by level",
    "telemetry": "paths by the network's own records",
    "paths": "which source port takes which path",
    "steering": "flows on the paths of the plan",
}
"""What the parts of a running agent are good for."""


def examine(socket: Path) -> list[Finding]:
    """Every feature, the ones that the agent needs first."""
    return [
        root(),
        btf(),
        libbpf(),
        cgroup2(),
        struct_ops(),
        program("sock_ops", "jobs' new sockets", required=True),
        clsact(),
        program("cgroup_sock_addr", "source ports of new connections"),
        bpffs(),
        congestion_controls(),
        rdma(),
        pyverbs(),
        *nics.findings(),
        nvml(),
        *agent(socket),
    ]


def healthy(findings: list[Finding]) -> bool:
    """Whether the agent can act here."""
    return all(f.state is State.OK for f in findings if f.required)


def document(findings: list[Finding]) -> dict[str, Any]:
    """Return what `doctor --json` prints."""
    rows = [asdict(finding) for finding in findings]
    return {"schema": SCHEMA, "healthy": healthy(findings), "findings": rows}


def root() -> Finding:
    """May we?"""
    serves = "everything that changes the host"
    if os.geteuid() == 0:
        return Finding("root", State.OK, f"kernel {platform.release()}", serves)
    detail = f"uid {os.geteuid()}; several trials below need root"
    return Finding("root", State.MISSING, detail, serves, remedy="sudo hostcc doctor")


def btf() -> Finding:
    """The kernel's own types, which compiled BPF programs adapt to."""
    serves = "loading BPF programs"
    try:
        with KERNEL_BTF.open("rb") as stream:
            good = stream.read(2) in {b"\x9f\xeb", b"\xeb\x9f"}
    except OSError as error:
        detail = f"{KERNEL_BTF}: {error.strerror}"
        return Finding("BTF", State.MISSING, detail, serves, remedy=NEWER_KERNEL)
    if not good:
        detail = f"{KERNEL_BTF}: not BTF"
        return Finding("BTF", State.MISSING, detail, serves, remedy=NEWER_KERNEL)
    return Finding("BTF", State.OK, str(KERNEL_BTF), serves)


def libbpf() -> Finding:
    """The library that loads BPF objects."""
    serves = "loading BPF programs"
    try:
        return Finding("libbpf", State.OK, kernel_probes.libbpf_version(), serves)
    except (OSError, AttributeError) as error:
        return Finding(
            "libbpf", State.MISSING, one_line(str(error)), serves, remedy="apt-get install libbpf1"
        )


def cgroup2() -> Finding:
    """A cgroup v2 tree that we may write to."""
    serves = "jobs"
    mount = find_mount()
    if mount is None:
        return Finding("cgroup v2", State.MISSING, "not mounted", serves, remedy=how_to_mount())
    hybrid = ", beside v1" if mount != Path("/sys/fs/cgroup") else ""
    try:
        kernel_probes.try_cgroup(mount)
    except PermissionError:
        detail = f"{mount}{hybrid}; needs root to try"
        return Finding("cgroup v2", State.UNKNOWN, detail, serves)
    except OSError as error:
        detail = f"{mount}: {error.strerror}"
        remedy = "make it writable: in a container, its manager has to delegate a subtree"
        return Finding("cgroup v2", State.MISSING, detail, serves, remedy=remedy)
    return Finding("cgroup v2", State.OK, f"{mount}{hybrid}", serves)


def struct_ops() -> Finding:
    """Register hostcc's congestion controls under a throw-away name, and drop them."""
    name, serves = "struct_ops", "congestion control in BPF"
    if os.geteuid() != 0:
        return Finding(name, State.UNKNOWN, "needs root to try", serves)
    try:
        from hostcc.bpf.loader.features import struct_ops_links
        from hostcc.daemon.preflight import tag
        from hostcc.mltcp.kernel import MltcpKernel
        from hostcc.mltcp.params import Variant

        trial = tag(f"doctor {os.getpid()}", Path("/"))
        backend = MltcpKernel(trial, list(Variant), 1.5)
        names = ", ".join(backend.ca_names)
        backend.close()
    except (BpfError, HostccError, OSError, ImportError) as error:
        return Finding(name, State.MISSING, one_line(str(error)), serves, remedy=NEWER_KERNEL)
    detail = f"registered {names}"
    if not struct_ops_links():
        detail += "; without links: what a killed agent registered stays until the next one starts"
    return Finding(name, State.OK, detail, serves)


def program(kind: str, serves: str, required: bool = False) -> Finding:
    """A BPF program type."""
    if os.geteuid() != 0:
        return Finding(kind, State.UNKNOWN, "needs root to try", serves, required)
    try:
        works = kernel_probes.program_type(kind)
    except (OSError, AttributeError) as error:
        return Finding(kind, State.UNKNOWN, one_line(str(error)), serves, required)
    if works:
        return Finding(kind, State.OK, "loads", serves, required)
    return Finding(kind, State.MISSING, "the kernel refuses it", serves, required, NEWER_KERNEL)


def clsact() -> Finding:
    """The qdisc that carries tc programs, on a loopback device of its own."""
    serves = "re-pathing of live connections, the lab"
    try:
        kernel_probes.in_new_netns(kernel_probes.add_clsact)
    except PermissionError:
        return Finding("clsact", State.UNKNOWN, "needs root to try", serves, required=False)
    except OSError as error:
        remedy = "modprobe sch_ingress (CONFIG_NET_SCH_INGRESS)"
        detail = error.strerror or str(error)
        return Finding("clsact", State.MISSING, detail, serves, False, remedy)
    return Finding("clsact", State.OK, "added and removed", serves, required=False)


def bpffs() -> Finding:
    """The BPF file system; only for pinning and for looking with bpftool."""
    serves = "pinned maps, bpftool"
    if kernel_probes.bpffs_mounted(BPFFS):
        return Finding("bpffs", State.OK, str(BPFFS), serves, required=False)
    remedy = f"mount -t bpf bpf {BPFFS}"
    detail = f"not mounted at {BPFFS}"
    return Finding("bpffs", State.MISSING, detail, serves, False, remedy)


def congestion_controls() -> Finding:
    """What the lab can compare with."""
    have = [name for name in kernel_probes.congestion_controls() if not name.startswith("hcc_")]
    serves, name = "comparisons in the lab", "kernel controls"
    absent = [want for want in ("cubic", "bbr", "dctcp") if want not in have]
    detail = " ".join(have) + (f"; not loaded: {' '.join(absent)}" if absent else "")
    if not absent:
        return Finding(name, State.OK, detail, serves, required=False)
    remedy = "modprobe " + " ".join(f"tcp_{want}" for want in absent)
    return Finding(name, State.MISSING, detail, serves, False, remedy)


def rdma() -> Finding:
    """RDMA devices."""
    serves = "RoCE steering"
    try:
        devices = sorted(os.listdir("/sys/class/infiniband"))  # noqa: PTH208
    except OSError:
        devices = []
    if devices:
        return Finding("RDMA", State.OK, " ".join(devices), serves, required=False)
    remedy = "with a NIC for it: apt-get install rdma-core; for trying: modprobe rdma_rxe, "
    remedy += "rdma link add rxe0 type rxe netdev DEVICE (apt-get install rdma-core iproute2)"
    return Finding("RDMA", State.MISSING, "no device", serves, False, remedy)


def pyverbs() -> Finding:
    """Verbs from Python.  (A package of that name on PyPI is something else.)"""
    serves = "RoCE steering"
    try:
        importlib.import_module("pyverbs.device")
    except ImportError as error:
        remedy = "apt-get install python3-pyverbs ibverbs-providers, and a virtual environment "
        remedy += "made with --system-site-packages"
        return Finding("pyverbs", State.MISSING, one_line(str(error)), serves, False, remedy)
    return Finding("pyverbs", State.OK, "imports", serves, required=False)


def nvml() -> Finding:
    """NVIDIA's management library."""
    serves = "GPU work per job"
    remedy = "with NVIDIA GPUs: apt-get install libnvidia-ml1 (Debian), nvidia-utils-NNN (Ubuntu), "
    remedy += "pip install nvidia-ml-py"
    try:
        library: Any = importlib.import_module("pynvml")
        library.nvmlInit()
        count = library.nvmlDeviceGetCount()
        library.nvmlShutdown()
    except Exception as error:  # noqa: BLE001 - the library has its own hierarchy of errors
        return Finding("NVML", State.MISSING, one_line(str(error)), serves, False, remedy)
    return Finding("NVML", State.OK, f"{count} GPUs", serves, required=False)


def agent(socket: Path) -> list[Finding]:
    """Does an agent answer, and do all of its parts run?"""
    serves = "all of it"
    try:
        status = decoded(socket, ask(socket, "status", 5.0), Status)
        detail = f"pid {status.agent.pid}, {status.agent.state}"
        found = [Finding("agent", State.OK, detail, serves, required=False)]
        parts = map(part_of, status.parts)
        found += [part(one.name, one.state, one.reason) for one in parts]
        return found + members(status.gossip)
    except NoAgentError as error:
        remedy = "systemctl start hostcc, or: hostcc agent"
        return [Finding("agent", State.MISSING, str(error), serves, False, remedy)]
    except HostccError as error:
        return [Finding("agent", State.UNKNOWN, str(error), serves, False)]


def members(gossip: Gossip | None) -> list[Finding]:
    """Other hosts that are not reached, or not let in, and why."""
    if gossip is None:
        return []
    serves, process = PARTS["gossip"], gossip.process
    rows = [
        Finding(one.who, State.MISSING, one.text, serves, required=False) for one in gossip.troubles
    ]
    if process is not None and process.restarts and process.pid is not None:
        detail = f"started again {process.restarts} times; the last one {process.reason}"
        rows.append(Finding("gossip process", State.OK, detail, serves, required=False))
    return rows


def part(name: str, state: str, reason: str | None) -> Finding:
    """One part of a running agent."""
    words = {"running": State.OK, "failed": State.MISSING}
    serves = PARTS.get(name, "the agent")
    return Finding(
        f"part {name}", words.get(state, State.UNKNOWN), reason or state, serves, required=False
    )
