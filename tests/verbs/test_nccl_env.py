"""NCCL's environment plugin, by host programs that load it as NCCL does, in both versions."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hostcc.system.cc import build
from hostcc.verbs.build import NCCL_ENV, SHIM, VERBS_HEADER
from hostcc.verbs.plan_region import PlanRegion, RdmaJob

pytestmark = pytest.mark.unit
NATIVE = Path(__file__).parent / "native"
GCC = ("gcc", "-Wall", "-Wextra", "-Werror")
OLDEST_GLIBC = (2, 28)


@dataclass(frozen=True)
class Host:
    """A compiled native/nccl_host.c, and the plan that its jobs have."""

    program: Path
    plan: Path

    def run(self, version: int = 2, /, job: str = "job", **more: str) -> list[str]:
        """Its lines: what was logged, the plugin's name, NCCL_IB_TC, NCCL_DEBUG, finalize."""
        done = subprocess.run(
            [str(self.program), str(NCCL_ENV.target), str(version), "NCCL_IB_TC", "NCCL_DEBUG"],
            env={"HOSTCC_RDMA_PLAN": str(self.plan), "HOSTCC_JOB": job, **more},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True, timeout=60,
        )  # fmt: skip
        return done.stdout.splitlines()

    def answers(self, version: int = 2, /, job: str = "job", **more: str) -> list[str]:
        """Without what was logged."""
        lines = self.run(version, job, **more)
        return [line for line in lines if "hostcc: " not in line]

    def log(self, version: int = 2, /, job: str = "job", **more: str) -> list[str]:
        """Only what was logged."""
        return [line for line in self.run(version, job, **more) if "hostcc: " in line]

    def other(self, version: int) -> Path:
        """The library of another plugin of a version; 0: it has no symbol that NCCL knows."""
        library = self.program.parent / f"libnccl-env-other{version}.so"
        if not library.exists():
            subprocess.run(
                [*GCC[:3], f"-DVERSION={version}", "-Wno-unused", "-shared", "-fPIC",
                 "-o", str(library), str(NATIVE / "nccl_other.c")],
                check=True,
            )  # fmt: skip
        return library


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    build(NCCL_ENV)
    program = tmp_path_factory.mktemp("nccl") / "nccl_host"
    subprocess.run(
        [*GCC, "-pthread", "-o", str(program), str(NATIVE / "nccl_host.c"), "-ldl"], check=True
    )
    made = Host(program, Path(f"/dev/shm/hostcc-test-nccl-{os.getpid()}"))
    yield made
    made.plan.unlink(missing_ok=True)


@pytest.mark.parametrize("version", [1, 2])
def test_nccl_gets_the_jobs_class(host: Host, version: int) -> None:
    region = PlanRegion.create(host.plan, jobs=4, stale_s=60)
    region.publish([RdmaJob("other", 0x20), RdmaJob("job", 0x68), RdmaJob("none")])
    assert host.answers(version) == ["hostcc", "104", "(null)", "0"]
    assert host.answers(version, "other", NCCL_DEBUG="WARN")[1:] == ["32", "WARN", "0"]
    assert host.answers(version, NCCL_IB_TC="7")[1] == "7"  # the job's own choice stays
    for job in ("none", "nobody", "", "x" * 200):
        assert host.answers(version, job)[1] == "(null)"
    region.publish([RdmaJob("job", 0xB8)])
    assert host.answers(version)[1] == "184"
    assert host.answers(version, "other")[1] == "(null)"
    region.close()
    assert host.answers(version)[1] == "(null)"


def test_a_stale_agent_has_no_say(host: Host) -> None:
    region = PlanRegion.create(host.plan, jobs=1, stale_s=0.01)
    region.publish([RdmaJob("job", 0x68)])
    time.sleep(0.02)
    assert host.answers()[1] == "(null)"


def test_garbage_is_no_plan(host: Host) -> None:
    region = PlanRegion.create(host.plan, jobs=2, stale_s=60)
    region.publish([RdmaJob("job", 0x68, (("198.18.0.1", (50000, 50001)),))])
    good = host.plan.read_bytes()
    rng = random.Random(1)
    for number in range(60):
        data = bytearray(good)
        for _ in range(rng.randrange(1, 20)):
            data[rng.randrange(min(len(data), 300))] = rng.randrange(256)
        host.plan.write_bytes(data[: rng.randrange(len(data))] if number % 3 == 0 else data)
        answer = host.answers()[1]
        assert answer == "(null)" or 0 <= int(answer) < 256
    host.plan.write_bytes(good)
    assert host.answers()[1] == "104"
    host.plan.chmod(0o666)  # anybody could have written it
    assert host.answers()[1] == "(null)"


def test_one_line_says_class_and_ports_and_why(host: Host) -> None:
    region = PlanRegion.create(host.plan, jobs=3, stale_s=60)
    ports = (("198.18.0.1", (50000, 50001)), ("198.18.0.2", (50002,)))
    region.publish([RdmaJob("job", 0x68, ports), RdmaJob("none")])
    (line,) = host.log()
    assert line == (
        "3 hostcc: job job: NCCL_IB_TC 104 by the agent's plan; UDP source ports are the NIC's: "
        "libhostcc-rdma.so is not loaded"
    )
    assert "NCCL_IB_TC 7 as the job has set it;" in host.log(NCCL_IB_TC="7")[0]
    (line,) = host.log(job="none")
    assert "not set: the agent's plan gives no class (rdma.dscp); " in line
    assert line.endswith("UDP source ports are the NIC's: the plan has none")
    assert "not set: the agent's plan does not have the job; " in host.log(job="nobody")[0]
    assert "job -: NCCL_IB_TC not set: HOSTCC_JOB names no job; " in host.log(job="")[0]
    region.close()
    assert "not set: no agent publishes a plan; " in host.log()[0]


@pytest.mark.skipif(not VERBS_HEADER.exists(), reason="no libibverbs-dev; tools/setup gets it")
def test_the_line_names_what_the_shim_gives(host: Host) -> None:
    build(SHIM)
    region = PlanRegion.create(host.plan, jobs=1, stale_s=60)
    region.publish([
        RdmaJob("job", 0x68, (("198.18.0.1", (50000, 50001)), ("198.18.0.2", (50002,))))
    ])  # fmt: skip
    (line,) = host.log(LD_PRELOAD=str(SHIM.target))
    assert line == (
        "3 hostcc: job job: NCCL_IB_TC not set: libhostcc-rdma.so gives the plan's class; "
        "UDP source port 50000,50001 by libhostcc-rdma.so: the planned path to the first of 2 "
        "destinations"
    )
    assert host.answers()[1] == "104"  # without the shim nobody else would
    region.close()


def test_version_1_has_no_log_of_nccls(host: Host) -> None:
    """It writes to standard error where NCCL would show the line, and nothing elsewhere."""
    host.plan.unlink(missing_ok=True)
    assert host.log(1) == host.log(1, NCCL_DEBUG="WARN") == []
    (line,) = host.log(1, NCCL_DEBUG="info")
    assert line.startswith("hostcc: job job: NCCL_IB_TC not set: no agent")


@pytest.mark.parametrize("nccl", [1, 2])
@pytest.mark.parametrize("version", [1, 2])
def test_the_jobs_own_plugin_answers_first(host: Host, nccl: int, version: int) -> None:
    region = PlanRegion.create(host.plan, jobs=1, stale_s=60)
    region.publish([RdmaJob("job", 0x68)])
    behind = {"HOSTCC_NCCL_ENV_PLUGIN": str(host.other(version))}
    ends = ["other: finalized", "7"]
    lines = host.run(nccl, **behind)
    assert lines[-5:] == ["hostcc", "104", "OTHER", *ends]
    told = any(line == "3 other: started" for line in lines)
    assert told == (nccl == version == 2)  # version 1 of NCCL has no logging function to give
    assert host.answers(nccl, **behind, OTHER_TC="9")[-5:] == ["hostcc", "9", "OTHER", *ends]
    # Whatever does not load or start is as if it were not there.
    for more in ({**behind, "FAILS": "1"}, {"HOSTCC_NCCL_ENV_PLUGIN": "/none.so"}):
        lines = host.run(nccl, **more, NCCL_DEBUG="INFO")
        assert lines[-4:] == ["hostcc", "104", "INFO", "0"]
        assert any("does not" in line for line in lines)
    region.close()


def test_plugins_behind_are_found_as_nccl_finds_them(host: Host) -> None:
    folder = host.other(2).parent
    found = {"LD_LIBRARY_PATH": str(folder)}
    for name in ("other2", "libnccl-env-other2.so", str(host.other(2))):
        assert host.answers(**found, HOSTCC_NCCL_ENV_PLUGIN=name)[3] == "OTHER"
    assert host.answers(**found)[2] == "(null)"  # NCCL's default, which is not there yet
    shutil.copy(host.other(1), folder / "libnccl-env.so")
    assert host.answers(**found)[2] == "OTHER"
    assert host.answers(**found, HOSTCC_NCCL_ENV_PLUGIN="none")[2] == "(null)"
    # A link to ourselves is no other plugin, and neither is the program itself.
    (folder / "libnccl-env.so").unlink()
    (folder / "libnccl-env.so").symlink_to(NCCL_ENV.target)
    assert host.answers(**found)[2] == "(null)"
    (folder / "libnccl-env.so").unlink()
    lines = host.run(HOSTCC_NCCL_ENV_PLUGIN="static_plugin")
    assert any(line.startswith("2 hostcc: ") and "no version" in line for line in lines)
    assert host.run(HOSTCC_NCCL_ENV_PLUGIN=str(host.other(0)))[-1] == "0"


def test_the_plugin_needs_no_newer_c_library() -> None:
    """Jobs bring their own, as old as EL 8's."""
    build(NCCL_ENV)
    symbols = subprocess.run(
        ["objdump", "-T", str(NCCL_ENV.target)], capture_output=True, text=True, check=True
    ).stdout
    needed = {tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([\d.]+)", symbols)}
    assert needed
    assert max(needed) <= OLDEST_GLIBC
    assert {"ncclEnvPlugin_v1", "ncclEnvPlugin_v2"} <= set(symbols.split())
