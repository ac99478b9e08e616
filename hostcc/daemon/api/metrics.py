"""Prometheus metrics over HTTP, served by the agent's own loop; labels per job, never per flow."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from hostcc.errors import HostccError

REQUEST_S = 5.0
MAX_CLIENTS = 8
JOB_LABEL = "training_job"
"""A label `job` is Prometheus' own, of the target: it renames ours to `exported_job`."""
JOB_GAUGES = {
    "flows": "Open connections",
    "processes": "Processes in the job's cgroup",
    "weight": "The owner's weight",
    "period_s": "Last iteration, start to start, seconds",
    "communication_s": "Communication time of the last iteration, seconds",
    "yielded_s": "Time spent yielding in this iteration, seconds",
}
PLAN_GAUGES = {
    "rank": "Place in the plan's order, 0 the first",
    "level": "Priority level, 0 the highest",
    "dscp": "DSCP of its connections",
    "factor": "What the plan multiplies its owner's weight by",
}
LOOP_GAUGES = {
    "longest_stall_s": "Longest turn of the agent's loop since it started, seconds",
    "longest_busy_s": "The same without the time that it waited for a processor, seconds",
}
JOB_COUNTERS = {
    "iterations": "Iterations seen",
    "bytes_acked": "Bytes acknowledged",
}


MEMBER_STATES = ("alive", "suspect", "dead")
TROUBLES = (
    "unresolved", "unreachable", "handshake", "not_accepted", "not_allowed", "refused", "away",
)  # fmt: skip
FLOW_STATES = ("planned", "moving", "ecmp", "elsewhere")
STEERING_COUNTERS = {
    "moved": "Moves of flows to another path that came about",
    "fell_back": "Flows that went back to ECMP because they fared badly",
    "refused": "Moves that did not come about",
}
STRAY_PACKETS = {"resets": "reset", "syns": "syn", "over": "too many resets"}


class MetricsServer:
    """GET anything, get the metrics.  `status` gives what `hostcc status --json` shows,
    `more` further families, from the module prometheus_client.core."""

    def __init__(
        self,
        listen: str,
        status: Callable[[], dict[str, Any]],
        more: Callable[[Any], Iterator[Any]] = lambda _: iter(()),
    ) -> None:
        host, _, port = listen.rpartition(":")
        self._host, self._port = host.strip("[]"), int(port)
        self._status = status
        self._more = more
        self._clients = 0
        self._server: asyncio.Server | None = None
        try:
            self._core = importlib.import_module("prometheus_client.core")
            self._exposition = importlib.import_module("prometheus_client.exposition")
        except ImportError:
            raise HostccError("metrics_listen needs the Python package prometheus_client") from None

    async def start(self) -> None:
        """Listen.  Raises HostccError when the address cannot be had."""
        try:
            self._server = await asyncio.start_server(
                self._serve, self._host, self._port, limit=8192
            )
        except OSError as error:
            where = f"{self._host}:{self._port}"
            raise HostccError(f"metrics_listen {where}: {error.strerror or error}") from None

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    def collect(self) -> Iterator[Any]:
        """The metric families of this moment."""
        core, status = self._core, self._status()
        agent = status["agent"]
        info = core.GaugeMetricFamily(
            "hostcc_agent_active", "1 while the agent acts, 0 while it observes"
        )
        info.add_metric([], float(agent["state"] == "active"))
        yield info
        yield core.CounterMetricFamily(
            "hostcc_agent_cpu_seconds", "CPU time of the agent", value=agent["cpu_s"]
        )
        yield core.GaugeMetricFamily(
            "hostcc_agent_resident_bytes", "Resident memory", value=agent["resident_bytes"]
        )
        yield from self._loop(agent["loop"])
        yield from self._quotas(agent.get("slots"), status["parts"])
        for keys, kind in (
            (JOB_GAUGES, core.GaugeMetricFamily),
            (JOB_COUNTERS, core.CounterMetricFamily),
        ):
            for key, words in keys.items():
                name = f"{key[:-2]}_seconds" if key.endswith("_s") else key
                family = kind(f"hostcc_job_{name}", words, labels=[JOB_LABEL])
                for job in status["jobs"]:
                    if job[key] is not None:
                        family.add_metric([job["name"]], job[key])
                yield family
        yield from self._plan(status.get("plan"))
        yield from self._gossip(status.get("gossip"))
        yield from self._routing(status.get("routing"), status["parts"])
        yield from self._more(core)

    def _loop(self, loop: dict[str, Any]) -> Iterator[Any]:
        """How the agent's own loop fares."""
        for key, words in LOOP_GAUGES.items():
            if loop[key] is not None:
                name = f"hostcc_agent_loop_{key[:-2]}_seconds"
                yield self._core.GaugeMetricFamily(name, words, value=loop[key])
        failing = "Pieces of the agent's tick that failed at their last turn"
        yield self._core.GaugeMetricFamily(
            "hostcc_agent_failing", failing, value=len(loop["failing"])
        )
        failures = "Failures of the agent's tick, and of what nobody waited for"
        yield self._core.CounterMetricFamily(
            "hostcc_agent_failures", failures, value=loop["failures"]
        )

    def _quotas(self, slots: dict[str, Any] | None, parts: list[dict[str, Any]]) -> Iterator[Any]:
        """How much is taken of what there is little of, and what was refused."""
        if slots is not None:
            taken = self._core.GaugeMetricFamily(
                "hostcc_agent_slots", "Job slots, by who has them", labels=["who"]
            )
            taken.add_metric(["root"], slots["root"])
            taken.add_metric(["others"], slots["used"] - slots["root"])
            taken.add_metric(["free"], slots["total"] - slots["used"])
            yield taken
        rows = {row["name"]: row for row in parts}
        refused = rows.get("discovery", {}).get("claims_refused")
        if refused is not None:
            words = "Jobs claimed by processes that no quota has room for"
            yield self._core.GaugeMetricFamily("hostcc_claims_refused", words, value=refused)
        over = rows.get("marks", {}).get("over_quota")
        if over is not None:
            words = "Messages of processes that no quota lets send marks"
            yield self._core.CounterMetricFamily("hostcc_marks_over_quota", words, value=over)

    def _plan(self, plan: dict[str, Any] | None) -> Iterator[Any]:
        """Nothing of jobs while no plan holds."""
        if plan is None:
            return
        gauge = self._core.GaugeMetricFamily
        held = gauge("hostcc_plan_followed", "1 while a plan holds, 0 while defaults are in force")
        held.add_metric([], float(plan["follows"] is not None))
        yield held
        agreed = gauge("hostcc_plan_agreed", "1 if the members that matter agreed on it")
        agreed.add_metric([], float(bool(plan["agreed"])))
        yield agreed
        number = "Activations of plans by this host"
        yield self._core.CounterMetricFamily(
            "hostcc_plan_activations", number, value=plan["number"]
        )
        if plan["age_s"] is not None:
            age = gauge("hostcc_plan_age_seconds", "Since the plan was the one to follow")
            age.add_metric([], plan["age_s"])
            yield age
        for key, words in PLAN_GAUGES.items():
            family = gauge(f"hostcc_job_planned_{key}", words, labels=[JOB_LABEL])
            for job in plan["jobs"]:
                if job[key] is not None:
                    family.add_metric([job["name"]], job[key])
            yield family

    def _gossip(self, gossip: dict[str, Any] | None) -> Iterator[Any]:
        """Nothing while this host does not take part."""
        if gossip is None:
            return
        gauge = self._core.GaugeMetricFamily
        members = gauge("hostcc_gossip_members", "Other members, by their state", labels=["state"])
        for state in MEMBER_STATES:
            members.add_metric([state], gossip["members"].get(state, 0))
        yield members
        words = "Members that have another value of what plans depend on than this host"
        unlike = gauge("hostcc_gossip_members_unlike", words, labels=["option"])
        for one in gossip["disagreements"]:
            unlike.add_metric([one["option"]], sum(there["count"] for there in one["there"]))
        yield unlike
        words = "Why others are not reached, or not let in: with how many that is so"
        troubles = gauge("hostcc_gossip_troubles", words, labels=["reason"])
        for reason in TROUBLES:
            count = sum(one["reason"] == reason for one in gossip["troubles"])
            troubles.add_metric([reason], count)
        yield troubles
        process = gossip.get("process")
        if process is not None:
            words = "Whether the process that has the gossip's connections runs"
            up = gauge("hostcc_gossip_process_up", words)
            up.add_metric([], int(process["pid"] is not None))
            yield up
            words = "How often that process was started again"
            restarts = self._core.CounterMetricFamily("hostcc_gossip_process_restarts", words)
            restarts.add_metric([], process["restarts"])
            yield restarts

    def _routing(
        self, routing: dict[str, Any] | None, parts: list[dict[str, Any]]
    ) -> Iterator[Any]:
        """Nothing while no paths are looked for."""
        if routing is None:
            return
        flows = self._core.GaugeMetricFamily(
            "hostcc_large_flows", "Flows worth a path, by where they are", labels=["state"]
        )
        for state in FLOW_STATES:
            count = sum(flow["state"] == state for flow in routing["flows"])
            flows.add_metric([state], float(count))
        yield flows
        known = self._core.GaugeMetricFamily(
            "hostcc_paths_known", "Destinations of which the paths are known",
            value=sum(one["paths"] > 0 for one in routing["destinations"]),
        )  # fmt: skip
        yield known
        steering: dict[str, Any] = next((row for row in parts if row["name"] == "steering"), {})
        for key, words in STEERING_COUNTERS.items():
            if key in steering:
                yield self._core.CounterMetricFamily(
                    f"hostcc_flows_{key}", words, value=steering[key]
                )
        if strays := steering.get("strays"):
            family = self._core.CounterMetricFamily(
                "hostcc_stray_packets",
                "Packets that fit no moved flow and ended none, by kind",
                labels=["kind"],
            )
            for key, kind in STRAY_PACKETS.items():
                family.add_metric([kind], float(strays[key]))
            yield family

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients += 1
        try:
            if self._clients <= MAX_CLIENTS:
                async with asyncio.timeout(REQUEST_S):
                    await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._response())
                    await writer.drain()
                    writer.close()
                    await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a client's trouble
        finally:
            self._clients -= 1
            with suppress(OSError):
                writer.transport.abort()

    def _response(self) -> bytes:
        body: bytes = self._exposition.generate_latest(self)
        head = (
            "HTTP/1.1 200 OK\r\n"
            f"Content-Type: {self._exposition.CONTENT_TYPE_LATEST}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + body
