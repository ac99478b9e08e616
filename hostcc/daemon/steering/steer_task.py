"""The part that moves this host's large flows onto the paths of the plan."""

from __future__ import annotations

import time
from collections.abc import Mapping

from hostcc.answers.parts import SteeringPart
from hostcc.bpf.loader.errors import BpfError
from hostcc.config.sections.paths import PathsConfig
from hostcc.daemon.gossip.cluster import Cluster
from hostcc.daemon.gossip.profile_store import ProfileStore
from hostcc.daemon.planning.agreement_status import PlanResult
from hostcc.daemon.planning.plan_store import PlanStore
from hostcc.daemon.steering import decision, pauses
from hostcc.daemon.steering import survey_task as finding
from hostcc.daemon.steering.binding import Binding
from hostcc.daemon.steering.decision import ELSEWHERE, MOVING, ON_ECMP, ON_PLAN, Situation, Step
from hostcc.daemon.steering.elephants import Connection, Elephant, flow_id
from hostcc.daemon.steering.failover_task import FailoverTask
from hostcc.daemon.steering.flow_health import Outcome, WatchedFlow, watched
from hostcc.daemon.steering.kernel_hooks import KernelHooks, clean_up, left_behind
from hostcc.daemon.steering.pauses import PendingMoves
from hostcc.daemon.steering.steering_state import SteeringState, target_of
from hostcc.daemon.steering.survey_task import SurveyTask
from hostcc.daemon.supervisor import Host
from hostcc.errors import HostccError, InputError, one_line
from hostcc.log import get_logger
from hostcc.model import Difference
from hostcc.paths import reserve
from hostcc.paths.steering_messages import FlowKey

log = get_logger("steering")

TICK_S = 0.25
DECIDE_S = 0.5
"""Interval of decisions without a new plan or a new survey."""
CHECK_S = 10.0
WAIT_S = 3.0
"""Wait for gossip to name the others, before flows of an earlier agent are released."""
STALLED_S = 5.0
"""Wait after a flow stalled on its planned path, until it is moved again."""
TOPIC, GOODBYE = "steer", "steerbye"


class SteerTask:
    """Carries out the plan for the flows in `picture`."""

    name = "steering"
    every_s = TICK_S

    def __init__(
        self,
        host: Host,
        cluster: Cluster,
        finding: SurveyTask,
        picture: SteeringState,
        plans: PlanStore,
        profiles: ProfileStore,
    ) -> None:
        self._host, self._cluster, self._picture = host, cluster, picture
        self._finding, self._plans, self._profiles = finding, plans, profiles
        self._ahead = FailoverTask()
        self._hooked: KernelHooks | None = None
        self._config: PathsConfig | None = None
        self._binding: Binding | None = None
        self._flows: dict[FlowKey, WatchedFlow] = {}
        self._waiting = PendingMoves()
        self._began = self._decide_at = self._check_at = 0.0
        self._basis: tuple[object, ...] = ()
        self._mine: tuple[PlanResult | None, dict[str, str], frozenset[str]] = (
            None,
            {},
            frozenset(),
        )
        self._aside = ""
        # Whether what an earlier agent left was undone, where steering is off.
        self._cleaned = False
        self._counts = {"moved": 0, "fell_back": 0, "refused": 0, "goodbyes": 0}

    # A part.

    def disabled_reason(self) -> str:
        """Say why it is disabled: by configuration, or because another agent steers here."""
        config = self._host.config.paths
        why = finding.disabled_reason(self._host)
        if not why and not config.steer:
            why = "paths.steer is false"
        if not why and self._aside and config is self._config:  # a reload makes another
            why = self._aside
        if why and self._host.engine is not None and self._hooked is None and not self._cleaned:
            self._cleaned = True
            for problem in clean_up(self._host.journal, "left behind, not wanted"):
                log.warning("not undone", reason=problem)
        return why

    def start(self) -> None:
        """Reset; the first ticks begin, once the others are known."""
        self._config, self._aside = self._host.config.paths, ""
        self._began = time.monotonic()
        self._check_at = self._began + CHECK_S

    async def tick(self) -> None:
        """Write the heartbeat, take messages, and decide about each flow now and then."""
        now = time.monotonic()
        if self._hooked is not None and not self._fits():
            await self._down(keep=False)
            self.start()
        if self._hooked is None:
            await self._up(now)
            return
        self._hooked.steering.tick()
        self._note_ports()
        made = self._plans.current("paths")
        plan = made.plan if made is not None else None
        self._ahead.follow(made, f"{self._cluster.name}/")
        basis = (plan.digest if plan is not None else "", self._picture.surveys)
        if basis != self._basis or now >= self._decide_at:
            self._basis, self._decide_at = basis, now + DECIDE_S
            self._decide(made, now)
        if now >= self._check_at:
            self._check_at = now + CHECK_S
            self._look_for_others()

    async def stop(self) -> None:
        """Give flows their own ports and undo every change."""
        kept = self._host.config.agent.on_exit == "keep" and not finding.disabled_reason(self._host)
        await self._down(keep=kept)

    def verify(self) -> list[Difference]:
        """Check hooks and reserved ports."""
        return self._hooked.check() if self._hooked is not None else []

    def view(self) -> SteeringPart:
        """Count flows by state, for status."""
        states, hooked = [flow.step.state for flow in self._flows.values()], self._hooked
        counts = self._counts
        return SteeringPart(
            devices=list(hooked.devices) if hooked is not None else [],
            on_planned_paths=states.count(ON_PLAN),
            on_ecmp=states.count(ON_ECMP),
            moving=states.count(MOVING),
            waiting=len(self._waiting),
            elsewhere=states.count(ELSEWHERE),
            translated=len(hooked.kernel.arriving()) if hooked is not None else 0,
            new_connections=self._binding.counts() if self._binding is not None else {},
            prepared=len(self._ahead.prepared),
            ahead=len(self._ahead.now),
            strays=hooked.kernel.strays() if hooked is not None else {},
            move_s=hooked.steering.move_times() if hooked is not None else {},
            moved=counts["moved"],
            fell_back=counts["fell_back"],
            refused=counts["refused"],
            goodbyes=counts["goodbyes"],
        )

    def states(self) -> dict[FlowKey, Step]:
        """Return each flow's state and why."""
        return {key: flow.step for key, flow in self._flows.items()}

    # Up and down.

    def _fits(self) -> bool:
        assert self._hooked is not None
        names = tuple(nic.name for nic in self._picture.nics)
        return self._config == self._host.config.paths and names == self._hooked.devices

    async def _up(self, now: float) -> None:
        cluster, picture = self._cluster, self._picture
        waited = now - self._began >= WAIT_S or len(set(cluster.owners().values())) > 1
        if not (cluster.name and picture.nics and waited):
            return
        assert self._config is not None
        left = bool(left_behind(self._host.journal))
        hooked = KernelHooks(
            self._config,
            [nic.name for nic in picture.nics],
            self._host.journal,
            self._post,
            lambda address: cluster.owners().get(address, ""),
            lambda address: address in picture.addresses,
        )
        await hooked.up()
        self._hooked = hooked
        if self._config.connect:
            self._binding = Binding(self._hooked.kernel)
        cluster.listen(TOPIC, self._heard)
        cluster.listen(GOODBYE, self._goodbye)
        log.info("steering", devices=" ".join(self._hooked.devices), taken_over=left)

    async def _down(self, *, keep: bool) -> None:
        self._cluster.listen(TOPIC, None)
        self._cluster.listen(GOODBYE, None)
        self._waiting.end_all()
        if self._hooked is not None:
            if self._binding is not None:
                self._binding.close()
            for problem in await self._hooked.down(self._say_goodbye, keep=keep):
                log.warning("not undone", reason=problem)
                self._host.journal.note("steering", problem)
        self._hooked, self._binding, self._flows, self._basis = None, None, {}, ()
        self._ahead.end()
        self._picture.wire_ports = {}

    def _say_goodbye(self) -> None:
        # Have the senders of what is translated here stop that.
        assert self._hooked is not None
        owners = self._cluster.owners()
        peers = {owners.get(one.wire.src, "") for one in self._hooked.kernel.arriving()} - {""}
        for peer in peers:
            self._cluster.send(peer, GOODBYE, b"")
        self._cluster.flush()

    def _look_for_others(self) -> None:
        # Who undoes what we did has a reason: it is not done again until the next reload.
        assert self._hooked is not None
        self._hooked.forget_unused()
        found = self.verify()
        if found:
            self._config, self._aside = self._host.config.paths, f"stands aside: {found[0].found}"
            log.warning("standing aside", target=found[0].target, reason=found[0].found)
            self._host.journal.note(found[0].target, self._aside)

    # Messages.

    def _post(self, peer: str, data: bytes) -> None:
        if peer:
            self._cluster.send(peer, TOPIC, data)

    def _heard(self, peer: str, data: bytes) -> None:
        if self._hooked is None:
            return
        try:
            self._hooked.steering.heard(peer, data)
        except InputError:
            raise
        except (BpfError, HostccError) as error:
            log.failure("steering message", peer=peer, reason=one_line(str(error)))
        if self._hooked.steering.sender.refusals:
            self._decide_at = 0.0
        self._note_ports()

    def _goodbye(self, peer: str, _: bytes) -> None:
        if self._hooked is not None:
            self._counts["goodbyes"] += 1
            self._hooked.steering.peer_gone(peer)

    # Flows.

    def _decide(self, made: PlanResult | None, now: float) -> None:
        assert self._hooked is not None
        assert self._config is not None
        elephants, steering = self._picture.elephants, self._hooked.steering
        self._end_closed()
        rescued = self._ahead.paths(self._picture.dead(now), self._picture.links())
        paths, still = self._planned(made)
        paths, still = {**paths, **rescued}, still - rescued.keys()
        ports = (self._config.first_port, self._config.last_port)
        taken: set[int] | None = None
        for key, one in sorted(elephants.items()):
            planned = paths.get(flow_id(key), "")
            flow = self._flow(key, planned, now)
            self._judge(one.connection, flow, now)
            stays = flow_id(key) in still
            situation = self._situation(one, flow, planned, now, stays=stays)
            flow.ports[situation.wire] = situation.port

            def free(port: int, key: FlowKey = key, flow: WatchedFlow = flow) -> bool:
                nonlocal taken
                if taken is None:  # all sockets are gone through, so only where it matters
                    taken = reserve.in_use(*ports)
                promised = self._waiting.taken(port) or port in flow.taken
                return not promised and port not in taken and steering.free(key, port)

            flow.step = decision.step(situation, free, ports)
            self._carry_out(one, flow)
        if self._binding is not None:
            self._bind(paths, frozenset(self._picture.wire_ports.values()), ports)

    def _planned(self, made: PlanResult | None) -> tuple[Mapping[str, str], frozenset[str]]:
        # Own flow -> path, and own flows that stay where they were; gone through once.
        if made is None:
            return {}, frozenset()
        if self._mine[0] is not made:
            own = f"{self._cluster.name}/"
            mine = [one for one in made.plan.flows if one.flow.startswith(own)]
            paths = {one.flow.removeprefix(own): one.path for one in mine}
            stays = (one.flow.removeprefix(own) for one in mine if one.flow in made.stays)
            self._mine = made, paths, frozenset(stays)
        return self._mine[1:]

    def _flow(self, key: FlowKey, planned: str, now: float) -> WatchedFlow:
        flow = self._flows.get(key)
        if flow is None:
            assert self._config is not None
            flow = self._flows[key] = watched(self._config, now)
        if planned:
            flow.named_at = now
        return flow

    def _judge(self, one: Connection, flow: WatchedFlow, now: float) -> None:
        # Note how a move ended; send a flow back that fares badly.
        assert self._hooked is not None
        sender = self._hooked.steering.sender
        active = bool(self._hooked.steering.active(one.key))
        if not sender.moving(one.key):
            refusal = sender.refusals.get(one.key, "")
            outcome = flow.ended(active=active, refusal=refusal, now=now)
            if outcome is not Outcome.NONE:
                self._counts[outcome.value] += 1
        if not active:
            flow.on_ecmp(one)
            return
        if one.key in self._picture.stalled:
            self._went_back(one, flow, "nothing is acknowledged any more")
            if flow_id(one.key) not in self._ahead.now:
                flow.not_before = now + STALLED_S
            return
        if why := flow.judge(one, now, peer_alive=not self._gone(one.key)):
            self._went_back(one, flow, why)

    def _went_back(self, one: Connection, flow: WatchedFlow, why: str) -> None:
        self._counts["fell_back"] += 1
        flow.held = f"went back: {why}"
        log.warning("flow goes back", flow=flow_id(one.key), job=one.job, reason=why)
        self._finding.doubt([target_of(one.key)], why)

    def _situation(
        self, one: Elephant, flow: WatchedFlow, planned: str, now: float, *, stays: bool
    ) -> Situation:
        assert self._hooked is not None
        key, steering = one.key, self._hooked.steering
        known, port = self._picture.paths_of(key), steering.active(key)
        # The kernel does not say which flow label it gives a flow.
        own = "" if known is None or steering.by_label(key) else known.path_of(key.sport)
        later = self._waiting.port(key)
        waits = bool(known is not None and later and known.path_of(later) == planned)
        wire = known.path_of(port) if known is not None and port else own
        # What is on another path with the port that it had was not moved: switches hash anew.
        moved_since = stays and flow.ports.get(planned) != port
        return Situation(
            planned=planned,
            table=known.table if known is not None else None,
            own=own,
            wire=wire,
            port=port,
            moving=waits or steering.sender.moving(key),
            peer_gone=self._gone(key),
            held_back=flow.held_back(now),
            moved_since=moved_since,
        )

    def _carry_out(self, one: Elephant, flow: WatchedFlow) -> None:
        assert self._hooked is not None
        key, port = one.key, flow.step.port
        if flow.step.state != MOVING:
            self._waiting.end(key)
        if flow.step.revert:
            self._hooked.steering.revert(key)
        elif port:
            self._waiting.begin(key, port, self._pause_s(one), lambda: self._move(one, flow, port))
        self._note_ports()

    def _pause_s(self, one: Elephant) -> float:
        # How long a move waits for its job to be silent: what has failed is left at once.
        if one.key in self._picture.stalled or flow_id(one.key) in self._ahead.now:
            return 0.0
        return pauses.wait_s(self._profiles.latest(one.connection.job), time.time())

    def _move(self, one: Elephant, flow: WatchedFlow, port: int) -> None:
        assert self._hooked is not None
        flow.asked = port
        try:
            self._hooked.steering.move(one.key, one.host, port)
        except (BpfError, HostccError) as error:
            log.failure("move", flow=flow_id(one.key), reason=one_line(str(error)))

    def _gone(self, key: FlowKey) -> bool:
        assert self._config is not None
        host = self._cluster.owners().get(key.dst, "")
        return not host or self._cluster.gone(host, self._config.peer_silent_s)

    def _end_closed(self) -> None:
        # Flows that are gone, or no longer large, are nobody's business any more.
        assert self._hooked is not None
        steering, there = self._hooked.steering, self._picture.elephants
        for key in [key for key in self._flows if key not in there]:
            self._waiting.end(key)
            steering.revert(key)
            del self._flows[key]
        for key in [key for key in steering.sender.refusals if key not in there]:
            del steering.sender.refusals[key]

    def _note_ports(self) -> None:
        # Which flows have another port on the wire.
        assert self._hooked is not None
        active = self._hooked.steering.active
        self._picture.wire_ports = {key: port for key in self._flows if (port := active(key))}

    def _bind(
        self, paths: Mapping[str, str], taken: frozenset[int], ports: tuple[int, int]
    ) -> None:
        assert self._binding is not None
        assert self._hooked is not None
        assert self._host.engine is not None
        flows = []
        for key in self._picture.elephants:
            known = self._picture.paths_of(key)
            path = "" if self._hooked.steering.by_label(key) else paths.get(flow_id(key))
            if path and known is not None and known.table is not None:
                flows.append(((key.dst, key.dport), path, known.table))
        groups = [group for job in self._host.engine.table.jobs.values() for group in job.groups]
        self._binding.sync(groups, flows, taken, ports)
