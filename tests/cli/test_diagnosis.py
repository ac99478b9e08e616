"""Every feature can be missing, and then says how to get it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hostcc.cli import diagnosis, kernel_probes
from hostcc.cli.diagnosis import healthy
from hostcc.cli.findings import Finding, State
from hostcc.daemon.preflight import tag
from tests.cli.test_tables import AGENT, GOSSIP, UNREACHED


def refuse(number: int) -> Callable[..., Any]:
    def body(*args: object) -> None:
        raise OSError(number, os.strerror(number))

    return body


def test_every_part_says_what_it_is_good_for() -> None:
    part = re.compile(r'^    name = "([a-z-]+)"$', re.MULTILINE)
    files = Path(diagnosis.__file__).parents[1].glob("daemon/**/*.py")
    named = {name for file in files for name in part.findall(file.read_text())}
    assert named == set(diagnosis.PARTS)


def test_health_needs_the_required_only() -> None:
    fine = Finding("a", State.OK, "", "")
    optional = Finding("b", State.MISSING, "", "", required=False)
    assert healthy([fine, optional])
    assert not healthy([fine, Finding("c", State.UNKNOWN, "", "")])


def test_without_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(kernel_probes, "try_cgroup", refuse(13))
    monkeypatch.setattr(kernel_probes, "in_new_netns", refuse(1))
    assert diagnosis.root().state is State.MISSING
    assert diagnosis.struct_ops().state is State.UNKNOWN
    assert diagnosis.program("sock_ops", "x").state is State.UNKNOWN
    assert diagnosis.clsact().state is State.UNKNOWN
    monkeypatch.setattr(diagnosis, "find_mount", lambda: Path("/sys/fs/cgroup"))
    assert diagnosis.cgroup2().state is State.UNKNOWN


def test_missing_things_come_with_a_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(diagnosis, "KERNEL_BTF", tmp_path / "none")
    monkeypatch.setattr(diagnosis, "find_mount", lambda: None)
    monkeypatch.setattr(kernel_probes, "libbpf_version", refuse(2))
    monkeypatch.setattr(kernel_probes, "program_type", lambda kind: False)
    monkeypatch.setattr(kernel_probes, "in_new_netns", refuse(2))
    monkeypatch.setattr(kernel_probes, "bpffs_mounted", lambda path: False)
    monkeypatch.setattr(kernel_probes, "congestion_controls", lambda: ["reno", "hcc_x_host"])
    found = [
        diagnosis.btf(),
        diagnosis.libbpf(),
        diagnosis.cgroup2(),
        diagnosis.program("sock_ops", "jobs", required=True),
        diagnosis.clsact(),
        diagnosis.bpffs(),
        diagnosis.congestion_controls(),
        *diagnosis.agent(tmp_path / "none"),
    ]
    assert {finding.state for finding in found} == {State.MISSING}
    assert all(finding.remedy for finding in found)
    assert [finding.name for finding in found if finding.required] == [
        "BTF",
        "libbpf",
        "cgroup v2",
        "sock_ops",
    ]
    assert found[6].detail == "reno; not loaded: cubic bbr dctcp"


def test_a_cgroup_tree_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "find_mount", lambda: Path("/sys/fs/cgroup"))
    monkeypatch.setattr(kernel_probes, "try_cgroup", refuse(30))
    finding = diagnosis.cgroup2()
    assert (finding.state, finding.detail) == (
        State.MISSING,
        "/sys/fs/cgroup: Read-only file system",
    )


def test_btf_that_is_something_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "vmlinux").write_bytes(b"ELF")
    monkeypatch.setattr(diagnosis, "KERNEL_BTF", tmp_path / "vmlinux")
    assert diagnosis.btf().detail.endswith("not BTF")


@pytest.mark.kernel
def test_trials_leave_nothing(cgroup2: Path) -> None:
    names = [finding.name for finding in diagnosis.examine(Path("/none"))]
    assert len(set(names)) == len(names)
    trial = f"hcc_{tag(f'doctor {os.getpid()}', Path('/'))}_"
    assert [n for n in kernel_probes.congestion_controls() if n.startswith(trial)] == []
    assert list(cgroup2.glob("hostcc-doctor-*")) == []


@pytest.mark.kernel
def test_clsact_is_tried_in_a_namespace_of_its_own() -> None:
    own = Path("/proc/self/ns/net").readlink()

    def inside() -> Path:
        kernel_probes.add_clsact()
        with pytest.raises(FileExistsError):
            kernel_probes.add_clsact()
        with pytest.raises(OSError, match="No such device"):
            kernel_probes.add_clsact(ifindex=999)
        return Path("/proc/thread-self/ns/net").readlink()

    assert kernel_probes.in_new_netns(inside) != own
    assert Path("/proc/self/ns/net").readlink() == own


def test_parts_and_members_of_a_running_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = {"name": "gpu", "state": "failed", "reason": "a\x1b driver"}
    process = {"pid": 7, "restarts": 2, "reason": "was ended by SIGABRT"}
    gossip = {**GOSSIP, "troubles": [UNREACHED], "process": process}
    answer = {"agent": AGENT, "jobs": [], "notes": [], "parts": [part], "gossip": gossip}
    monkeypatch.setattr(diagnosis, "ask", lambda *_: answer)
    agent, failed, seed, again = diagnosis.agent(tmp_path)
    assert (agent.state, agent.detail) == (State.OK, "pid 7, active")
    assert (failed.name, failed.state, failed.detail) == ("part gpu", State.MISSING, "a\x1b driver")
    assert (seed.name, seed.detail) == (UNREACHED["who"], UNREACHED["text"])
    assert again.detail == "started again 2 times; the last one was ended by SIGABRT"
    del answer["agent"]
    (unknown,) = diagnosis.agent(tmp_path)
    assert (unknown.state, "does not say 'agent'" in unknown.detail) == (State.UNKNOWN, True)
