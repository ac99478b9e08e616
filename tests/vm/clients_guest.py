"""In the guest: RDMA clients of the distribution, with the transport shim and without it.

`python -m tests.vm.clients_guest` reads the name of a part from each line, and answers with one
JSON object.  `cost=RUNS` measures what the shim costs UCX: the guest's clock counts instructions,
and of both programs only one works.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections import Counter
from typing import Any

from hostcc.verbs.build import SHIM
from tests.vm import roce_fabric
from tests.vm.programs import Programs
from tests.vm.rdma_clients import SIZE, Client, fabric, mpi, rping, ucx
from tests.vm.roce_fabric import Capture
from tests.vm.shim_guest import CLASS, MOST, Agent, counted, ports_of
from tests.vm.wire import ranked, running

RELIABLE = 0x20
"""Opcodes below are of reliable connections; what sets them up is above."""
WITH_SHIM = {"LD_PRELOAD": str(SHIM.target), "HOSTCC_JOB": "job"}
CLIENTS = {
    "ucx": ucx(200), "mpi": mpi(20), "rping": rping(20), "rping_own": rping(20, "-q"),
    "fabric": fabric(20), "fabric_rxm": fabric(20, "verbs;ofi_rxm", "rdm"),
}  # fmt: skip


class Started(Programs):
    """The processes of a client; who connects starts once the server waits."""

    def __init__(self, client: Client, **environment: str) -> None:
        super().__init__(**environment)
        self._client = client
        for words in client.sides:
            self.start(words)
            self.await_server(client.ready)

    def end(self) -> dict[str, Any]:
        """Results, too."""
        found = super().end()
        return {**found, "result": [self._client.result(text) for text in self.texts]}


def wire(capture: Capture) -> list[list[Any]]:
    """[path, port, class, packets] of reliable connections, the most frequent first."""
    return ranked(
        Counter(
            (one.path, one.port, one.traffic_class)
            for one in capture.take()
            if one.opcode < RELIABLE
        )
    )


def ways(name: str, capture: Capture, ports: tuple[int, int]) -> dict[str, Any]:
    """A client without the shim, with it and no agent, with an agent that has a plan."""
    client, report = CLIENTS[name], {}
    capture.take()
    report["without"] = {**Started(client).end(), "wire": wire(capture)}
    report["no_agent"] = {**Started(client, **WITH_SHIM).end(), "wire": wire(capture)}
    report["no_agent"]["counts"] = counted()
    agent = Agent(ports=(ports[1],), traffic_class=CLASS)
    started = Started(client, **WITH_SHIM)
    report["planned"] = {**started.end(), "wire": wire(capture)}
    agent.close()
    return report


def moved(capture: Capture, ports: tuple[int, int]) -> dict[str, Any]:
    """The plan changes while a job with UCX sends."""
    agent = Agent(ports=(ports[0],), traffic_class=CLASS)
    started = Started(ucx(4000), **WITH_SHIM)
    before = running(capture, lambda seen: seen == {("p0", ports[0], CLASS)}, MOST)
    agent.say(ports=(ports[1],), traffic_class=CLASS)
    after = running(capture, lambda seen: seen == {("p1", ports[1], CLASS)}, MOST)
    counts = counted()
    report = {**started.end(), "before": before, "after": after, "counts": counts}
    agent.close()
    return report


def cost(runs: int) -> dict[str, Any]:
    """Latency (us) and bandwidth (MB/s) by `ucx_perftest`, in turns without and with the shim."""
    found: dict[str, dict[str, list[float]]] = {}
    for _ in range(runs):
        for name, client, column in (
            ("latency_us", ucx(2000, "ucp_get", 64, "-o"), 4),
            ("bandwidth_mbps", ucx(1000, "ucp_put_bw", SIZE, "-o"), 6),
        ):
            for kind in ("without", "no_agent", "planned"):
                agent = Agent(traffic_class=CLASS) if kind == "planned" else None
                done = Started(client, **({} if kind == "without" else WITH_SHIM)).end()
                if agent is not None:
                    agent.close()
                (row,) = [line for text in done["output"] for line in text.splitlines()
                          if line.startswith("Final:")]  # fmt: skip
                found.setdefault(name, {}).setdefault(kind, []).append(float(row.split()[column]))
                print(name, kind, row, flush=True)
    ratios = {
        f"{name} {kind}": [new / old for new, old in zip(of[kind], of["without"], strict=True)]
        for name, of in found.items()
        for kind in ("no_agent", "planned")
    }
    medians = {name: statistics.median(values) for name, values in ratios.items()}
    return {"values": found, "ratios": ratios, "medians": medians}


def main() -> None:
    roce_fabric.build()
    roce_fabric.run("modprobe rdma_ucm")
    capture = Capture()
    ports = ports_of(capture)
    for line in sys.stdin:
        began = time.monotonic()
        name, _, number = line.strip().partition("=")
        if number:
            found = cost(int(number))
        elif name == "moved":
            found = moved(capture, ports)
        else:
            found = ways(name, capture, ports)
        report = {"ports": ports, name: found, "seconds": time.monotonic() - began}
        print("REPORT " + json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
