"""In the guest: RDMA programs of the distribution, and what of their output is a result."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

from tests.vm.patience import listens
from tests.vm.roce_fabric import ADDRESS

Words = tuple[str, ...]
UCX_PORT, RPING_PORT, FABRIC_PORT = 18515, 7174, 47592
SIZE = 16384


@dataclass(frozen=True)
class Client:
    """One program on both devices."""

    sides: tuple[Words, ...]
    """Commands; a server and who connects to it, or one that starts both."""
    ready: Callable[[], bool]
    """Whether the server waits for the other one."""
    result: Callable[[str], list[str]]
    """Of what a side has printed: what is the same in each run."""


def on(device: str) -> Words:
    """The environment of a process with UCX that has one of the devices."""
    words = (f"UCX_NET_DEVICES={device}:1", "UCX_TLS=rc", "UCX_IB_GID_INDEX=1")
    # It takes from a completion what only mlx5 puts there, and drops the datagrams that connect it.
    return ("env", *words, "UCX_UD_VERBS_ETH_DGID_CHECK=n")


def ucx(iterations: int, test: str = "tag_bw", size: int = SIZE, *more: str) -> Client:
    words = ("ucx_perftest", "-t", test, "-s", str(size), "-n", str(iterations), "-w", "10",
             "-p", str(UCX_PORT), *more)  # fmt: skip
    return Client(
        ((*on("rxb"), *words), (*on("rxa"), *words, "127.0.0.1")),
        lambda: listens(UCX_PORT),
        lambda text: [line.split()[1] for line in text.splitlines() if line.startswith("Final:")],
    )


def mpi(iterations: int) -> Client:
    words = [
        "mpirun",
        "--allow-run-as-root",
        "--oversubscribe",
        "--mca",
        "pml",
        "ucx",
        "--mca",
        "btl",
        "self",
    ]
    for device in ("rxa", "rxb"):
        words += ["-n", "1", *on(device), sys.executable, "-m", "tests.vm.mpi_sum", str(iterations)]
        words += [":"] if device == "rxa" else []
    return Client(
        (tuple(words),),
        lambda: True,
        lambda text: sorted(line for line in text.splitlines() if line.startswith("{")),
    )


def rping(count: int, *more: str) -> Client:
    words = ("rping", "-a", ADDRESS["rxb"], "-p", str(RPING_PORT), "-C", str(count), "-S", "64",
             "-v", "-V", *more)  # fmt: skip
    return Client(
        ((*words, "-s"), (*words, "-c", "-I", ADDRESS["rxa"])),
        lambda: rdma_listens(RPING_PORT),
        lambda text: [line for line in text.splitlines() if "ping data" in line],
    )


def fabric(count: int, provider: str = "verbs", endpoint: str = "msg") -> Client:
    """libfabric's; for 256 peers its queues would be longer than Soft-RoCE has them."""
    words = ("env", "FI_UNIVERSE_SIZE=2", "fi_pingpong", "-p", provider, "-e", endpoint,
             "-I", str(count), "-S", str(SIZE), "-c")  # fmt: skip
    return Client(
        (
            (*words, "-d", "rxb", "-B", str(FABRIC_PORT)),
            (*words, "-d", "rxa", "-P", str(FABRIC_PORT), "127.0.0.1"),
        ),
        lambda: listens(FABRIC_PORT),
        lambda text: [
            " ".join(line.split()[:2]) for line in text.splitlines() if re.match(r"\d+\S* ", line)
        ],
    )


def rdma_listens(port: int) -> bool:
    """Whether a process waits for connections to this port by rdma_cm."""
    words = ["rdma", "-j", "resource", "show", "cm_id"]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return any(
        one["state"] == "LISTEN" and one.get("src-addr", "").endswith(f":{port}")
        for one in json.loads(done.stdout or "[]")
    )
