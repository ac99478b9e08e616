"""Small traces in the schema of the released files: BOM, CRLF, many empty columns."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

JOB = [
    "id",
    "uid",
    "job_name",
    "kind",
    "namespace",
    "model",
    "status",
    "reason",
    "reason_code",
    "etcd_version",
    "cluster_id",
    "tenant_id",
    "group_id",
    "user_id",
    "is_enable_gpu_topo_aware",
    "is_deleted",
    "is_in_k8s",
    "gmt_job_submitted",
    "gmt_job_running",
    "gmt_job_stopped",
    "gmt_job_finished",
    "gmt_created",
    "gmt_modified",
    "extended",
    "job_max_running_time_minutes",
    "workspace_id",
    "priority",
    "resource_id",
    "resource_level",
    "workspace_name",
    "sub_status",
    "job_restart_times",
]
EMPTY = [f"Unnamed: {number}" for number in range(32, 130)]
WORKER = [
    "id",
    "job_name",
    "worker_name",
    "replica_type",
    "host_ip",
    "gmt_created",
    "gmt_pod_running",
    "gmt_pod_finished",
    "RES",
]
TOPO = ["ip", "DSW", "PSW", "ASW"]
EIGHT = '{"cpu": "64", "memory": "800Gi", "nvidia.com/gpu": "8", "koordinator.sh/rdma": "1"}'


def job(number: int, **values: str) -> dict[str, str]:
    """A job that ran for half an hour."""
    return {
        "id": str(number),
        "job_name": f"job{number}",
        "model": "llama",
        "status": "Succeeded",
        "gmt_job_submitted": "2023/7/15 00:45",
        "gmt_job_running": "2023/7/15 00:47",
        "gmt_job_finished": "2023/7/15 1:17",
        **values,
    }


def worker(number: int, of: str, host: str, resources: str = EIGHT) -> dict[str, str]:
    return {"id": str(number), "job_name": of, "host_ip": host, "RES": resources}


def topo(*hosts: tuple[str, str, str]) -> list[dict[str, str]]:
    return [{"ip": ip, "DSW": "G1", "PSW": psw, "ASW": asw} for ip, psw, asw in hosts]


def write(
    folder: Path,
    jobs: Sequence[Mapping[str, str]],
    workers: Sequence[Mapping[str, str]],
    hosts: Sequence[Mapping[str, str]],
    shuffle: int | None = None,
) -> Path:
    """Write the three files, rows in another order if asked to."""
    for name, head, rows in (
        ("job.csv", [*JOB, *EMPTY], jobs),
        ("worker.csv", WORKER, workers),
        ("topo.csv", TOPO, hosts),
    ):
        order = list(rows)
        if shuffle is not None:
            random.Random(shuffle).shuffle(order)
        text = io.StringIO()
        out = csv.DictWriter(text, head, restval="", lineterminator="\r\n")
        out.writeheader()
        out.writerows(order)
        (folder / name).write_bytes(b"\xef\xbb\xbf" + text.getvalue().encode())
    return folder
