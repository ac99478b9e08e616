"""Prometheus metrics and health over HTTP, served by the agent's own loop.

Labels are per job, never per flow.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from hostcc.answers import derived_metrics as derived
from hostcc.answers.fields import families, families_of_rows
from hostcc.answers.gossip import Gossip
from hostcc.answers.links import OwnLink
from hostcc.answers.parts import GatedJob, GatesPart, Part, SteeringPart, part_of
from hostcc.answers.plan_status import PlanDifference, PlannedJob, PlanStatus
from hostcc.answers.status import JobSlots, JobStatus, Loop, Routing, Status
from hostcc.daemon.api.health import unhealthy, unready
from hostcc.daemon.api.metrics_access import MetricsAccess
from hostcc.errors import HostccError

REQUEST_S = 5.0
MAX_CLIENTS = 8
MEMBER_STATES = ("alive", "suspect", "dead")
TROUBLES = (
    "unresolved", "unreachable", "handshake", "not_accepted", "not_allowed", "refused",
    "certificate", "away",
)  # fmt: skip
FLOW_STATES = ("planned", "moving", "ecmp", "elsewhere")
STRAY_PACKETS = {"resets": "reset", "syns": "syn", "over": "too many resets"}


Families = Callable[[Any], Iterator[Any]]
"""Makes metric families from the module prometheus_client.core."""
CHALLENGE = 'WWW-Authenticate: Basic realm="hostcc"\r\n'
HEALTH = {"/healthz": unhealthy, "/readyz": unready}


class MetricsServer:
    """Serves the health at `/healthz` and `/readyz`, and metrics at `/metrics` and anywhere else.

    `status` gives what `hostcc status --json` shows, `more` makes further families.
    """

    def __init__(
        self,
        listen: str,
        status: Callable[[], Status],
        more: Sequence[Families] = (),
        access: MetricsAccess | None = None,
    ) -> None:
        """`access`: who may read the metrics; None: whoever connects."""
        host, _, port = listen.rpartition(":")
        self._host, self._port = host.strip("[]"), int(port)
        self._status = status
        self._more = more
        self._access = access or MetricsAccess()
        self._clients = 0
        self._server: asyncio.Server | None = None
        try:
            self._core = importlib.import_module("prometheus_client.core")
            self._exposition = importlib.import_module("prometheus_client.exposition")
            process = importlib.import_module("prometheus_client.process_collector")
            self._process = process.ProcessCollector(registry=None)
        except ImportError:
            raise HostccError("metrics_listen needs the Python package prometheus_client") from None

    async def start(self) -> None:
        """Listen.  Raises HostccError when the address cannot be had."""
        try:
            self._server = await asyncio.start_server(
                self._serve, self._host, self._port, limit=8192, ssl=self._access.context
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
        yield derived.ACTIVE.family(core, float(status.agent.state == "active"))
        yield derived.HELD.family(core, float(status.agent.held is not None))
        build = derived.BUILD.family(core)
        build.add_metric([], {"version": status.agent.version})
        yield build
        yield from self._process.collect()
        yield from families(core, status.agent)
        yield from self._loop(status.agent.loop)
        if status.agent.slots is not None:
            yield self._slots(status.agent.slots)
        yield from families_of_rows(core, JobStatus, status.jobs)
        if status.plan is not None:
            yield from self._plan(status.plan)
        if status.gossip is not None:
            yield from self._gossip(status.gossip)
        if status.routing is not None:
            yield from self._routing(status.routing)
        parts = [part_of(row) for row in status.parts]
        yield self._up(parts)
        for part in parts:
            yield from self._part(part)
        for source in self._more:
            yield from source(core)

    def _loop(self, loop: Loop) -> Iterator[Any]:
        yield from families(self._core, loop)
        yield derived.FAILING.family(self._core, len(loop.failing))

    def _slots(self, slots: JobSlots) -> Any:
        taken = derived.SLOTS.family(self._core)
        taken.add_metric(["root"], slots.root)
        taken.add_metric(["others"], slots.used - slots.root)
        taken.add_metric(["free"], slots.total - slots.used)
        return taken

    def _up(self, parts: Sequence[Part]) -> Any:
        """Parts that are off in the configuration have no sample."""
        up = derived.PART_UP.family(self._core)
        for part in parts:
            if part.state != "off":
                up.add_metric([part.name], float(part.state == "running"))
        return up

    def _part(self, part: Part) -> Iterator[Any]:
        """The figures of one part; of one that does not run there are none."""
        yield from families(self._core, part)
        if isinstance(part, SteeringPart) and part.strays:
            family = derived.STRAY_PACKETS.family(self._core)
            for key, kind in STRAY_PACKETS.items():
                family.add_metric([kind], float(part.strays[key]))
            yield family
        if isinstance(part, GatesPart):
            yield from families_of_rows(self._core, GatedJob, part.gated)

    def _plan(self, plan: PlanStatus) -> Iterator[Any]:
        """Nothing of jobs' levels while no plan holds."""
        yield derived.PLAN_FOLLOWED.family(self._core, float(plan.follows is not None))
        yield derived.PLAN_AGREED.family(self._core, float(bool(plan.agreed)))
        yield from families(self._core, plan)
        yield from families_of_rows(self._core, PlannedJob, plan.jobs)
        yield from families_of_rows(self._core, PlanDifference, plan.differing)
        if plan.cluster is not None:
            yield from families(self._core, plan.cluster)
            yield from families_of_rows(self._core, OwnLink, plan.cluster.links)
            if plan.cluster.turn is not None:
                yield from families(self._core, plan.cluster.turn)

    def _gossip(self, gossip: Gossip) -> Iterator[Any]:
        members = derived.MEMBERS.family(self._core)
        for state in MEMBER_STATES:
            members.add_metric([state], gossip.members.get(state, 0))
        yield members
        seeds = derived.SEEDS.family(self._core)
        for state, count in gossip.seeds.items():
            seeds.add_metric([state], count)
        yield seeds
        unlike = derived.MEMBERS_UNLIKE.family(self._core)
        for one in gossip.disagreements:
            unlike.add_metric([one.option], sum(there.count for there in one.there))
        yield unlike
        troubles = derived.TROUBLES.family(self._core)
        for reason in TROUBLES:
            count = sum(one.reason == reason for one in gossip.troubles)
            troubles.add_metric([reason], count)
        yield troubles
        if gossip.process is not None:
            yield derived.GOSSIP_PROCESS_UP.family(self._core, gossip.process.pid is not None)
            yield from families(self._core, gossip.process)

    def _routing(self, routing: Routing) -> Iterator[Any]:
        flows = derived.LARGE_FLOWS.family(self._core)
        for state in FLOW_STATES:
            count = sum(flow.state == state for flow in routing.flows)
            flows.add_metric([state], float(count))
        yield flows
        known = sum(one.paths > 0 for one in routing.destinations)
        yield derived.PATHS_KNOWN.family(self._core, known)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients += 1
        self._access.refresh()  # for the next connection
        try:
            if self._clients <= MAX_CLIENTS:
                async with asyncio.timeout(REQUEST_S):
                    request = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._response(request))
                    await writer.drain()
                    writer.close()
                    await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a client's trouble
        finally:
            self._clients -= 1
            with suppress(OSError):
                writer.transport.abort()

    def _response(self, request: bytes = b"") -> bytes:
        first, *headers = request.decode("latin-1").split("\r\n")
        path = [*first.split(" "), "", ""][1].partition("?")[0]
        if path in HEALTH:
            why = HEALTH[path](self._status())
            return _http("503 Service Unavailable" if why else "200 OK", "text/plain", why or "ok")
        pairs = (line.partition(":") for line in headers)
        given = {name.lower(): value for name, _, value in pairs}
        if not self._access.allows(given.get("authorization", "")):
            return _http("401 Unauthorized", "text/plain", "a user is needed", CHALLENGE)
        try:
            encode, content_type = self._exposition.choose_encoder(given.get("accept", ""))
        except (ValueError, TypeError):  # a version that is none
            encode, content_type = self._exposition.choose_encoder("")
        return _http("200 OK", content_type, encode(self).decode())


def _http(status: str, content_type: str, text: str, more: str = "") -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\n{more}Connection: close\r\n\r\n"
    )
    return head.encode() + body
