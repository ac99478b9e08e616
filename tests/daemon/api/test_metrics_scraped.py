"""What a real Prometheus makes of the metrics: on loopback, from a configuration of its own."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from hostcc.answers.status import Status
from hostcc.daemon.api.metrics import MetricsServer
from hostcc.daemon.profiling.gauges import gauges
from tests.daemon.api.test_metrics import AGENT, PLAN
from tests.daemon.jobs.test_iteration_times import ROW, WHOLE, seen
from tests.daemon.profiling.test_gauges import profiled

PROMETHEUS = Path(sys.prefix) / "bin" / "prometheus"

pytestmark = [
    pytest.mark.unit,
    pytest.mark.skipif(
        not PROMETHEUS.exists(), reason="no prometheus: tools/setup --with-prometheus gets it"
    ),
    pytest.mark.slow,
]

STATUS = msgspec.convert(
    {
        "agent": AGENT,
        "jobs": [msgspec.to_builtins(msgspec.structs.replace(ROW, flows=1, period_s=1.0))],
        "plan": PLAN,
        "notes": [],
    },
    Status,
)
CONFIG = """
scrape_configs:
  - job_name: hosts
    scrape_interval: 200ms
    scrape_timeout: 200ms
    static_configs:
      - targets: ["127.0.0.1:{port}"]
"""
SERIES = {
    "hostcc_job_weight",
    "hostcc_job_iterations_total",
    "hostcc_job_planned_rank",
    "hostcc_profile_confidence",
    "hostcc_job_iteration_seconds_bucket",
}
PATIENCE_S = 60.0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def prometheus(folder: Path, target: int) -> Iterator[int]:
    """Scraping the port `target`; gives the port of its own."""
    (folder / "prometheus.yml").write_text(CONFIG.format(port=target))
    port = free_port()
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen(
            [
                PROMETHEUS,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stderr=log,
        )
    try:
        yield port
    finally:
        process.terminate()
        process.wait()


def labels(port: int, series: str) -> list[dict[str, str]]:
    """Of every series of that name that Prometheus holds; none while it does not answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", f"/api/v1/query?{urllib.parse.urlencode({'query': series})}")
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            return []
        return [row["metric"] for row in json.load(answer)["data"]["result"]]
    except OSError:
        return []
    finally:
        connection.close()


def has_all(port: int) -> bool:
    return all(labels(port, series) for series in SERIES)


@pytest.mark.asyncio
async def test_a_job_is_found_by_its_label(tmp_path: Path) -> None:
    jobs = {"a": profiled("a")}
    times = seen(*[WHOLE] * 8)
    more = [lambda core: gauges(core, jobs), times.families]
    server = MetricsServer("127.0.0.1:0", lambda: STATUS, more)
    await server.start()
    try:
        with prometheus(tmp_path, server.port) as port:
            async with asyncio.timeout(PATIENCE_S):
                while not await asyncio.to_thread(has_all, port):  # noqa: ASYNC110 - has no events
                    await asyncio.sleep(0.1)
            for series in SERIES:
                for found in await asyncio.to_thread(labels, port, series):
                    assert (found["job"], found["training_job"]) == ("hosts", "a")
            assert await asyncio.to_thread(labels, port, "hostcc_build_info")
            (process,) = await asyncio.to_thread(labels, port, "process_open_fds")
            assert process["job"] == "hosts"
            every = await asyncio.to_thread(labels, port, '{__name__=~"hostcc_.+"}')
            assert every
            assert not [name for one in every for name in one if name.startswith("exported_")]
    finally:
        await server.close()
