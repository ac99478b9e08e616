"""The routing paper's jobs: rings over NICs, iterating on a two-layer Clos under a path method.

All rings of a job start when its computation ends, and send 2 (N - 1) rounds with a barrier for
each ring and round. Paths of all active flows are chosen anew whenever a job starts or ends
communicating.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

import msgspec
import numpy as np

from benchmarks import routing_optimum
from benchmarks.evidence.readings import FOLDER
from hostcc.errors import HostccError
from hostcc.schedule.paths import baselines, greedy, two_layer
from hostcc.schedule.paths import clos as closes
from hostcc.schedule.paths.clos import Clos, Flows
from hostcc.schedule.paths.fabric import Ints
from hostcc.sim.flowsim.run import Options, simulate
from hostcc.sim.flowsim.workload import Fabric, pack
from hostcc.sim.periodic import Orders, SimFlow, SimJob

Method = Callable[[Clos, Flows], Ints]
"""Returns (F,) a spine for each flow."""

ANNEALING_STEPS = 10_000
SOLVER_SECONDS = 60.0
END_S = 1e6


class Rings(msgspec.Struct, frozen=True):
    """`count` rings; each is over the NICs that follow those of the one before."""

    nics: tuple[int, ...]
    count: int


class RingJob(msgspec.Struct, frozen=True):
    """One job of the evaluation."""

    model: str
    bytes: float
    """Per flow and round."""
    compute_s: float
    start_s: float
    """When it first communicates."""
    rings: tuple[Rings, ...]

    def alone(self, rate: float) -> float:
        """Return its all-reduce without contention, in seconds, at `rate` bytes/s of a NIC."""
        return max(2 * (len(ring.nics) - 1) * self.bytes / rate for ring in self.rings)


class JobSet(msgspec.Struct, frozen=True):
    """Jobs that run at the same time."""

    name: str
    jobs: tuple[RingJob, ...]


class FabricSize(msgspec.Struct, frozen=True):
    """The fabric: every ToR linked to every spine, NICs numbered by ToR."""

    tors: int
    spines: int
    first_nic: int
    nics_of_tor: int
    rate: float
    """Bit/s of every link."""


class Evaluation(msgspec.Struct, frozen=True):
    """The published traffic."""

    fabric: FabricSize
    sets: tuple[JobSet, ...]


@cache
def evaluation() -> Evaluation:
    """Return the sets of jobs and their fabric."""
    return msgspec.json.decode((FOLDER / "routing-traffic.json").read_bytes(), type=Evaluation)


@dataclass(frozen=True)
class JobFlows:
    """Flows of one job; all arrays (F,)."""

    src: Ints
    """Sending ToR."""
    dst: Ints
    key: Ints
    """Of the pair of NICs."""
    ring: Ints
    rounds: Ints


def flows_of(job: RingJob, size: FabricSize) -> JobFlows:
    """Return the flows of one round of a job, ring by ring."""
    rows = []
    number = 0
    for rings in job.rings:
        ahead = (*rings.nics[1:], rings.nics[0])
        for offset in range(rings.count):
            rounds = 2 * (len(rings.nics) - 1)
            rows += [
                (one + offset, other + offset, number, rounds)
                for one, other in zip(rings.nics, ahead, strict=True)
            ]
            number += 1
    src, dst, ring, rounds_of = np.array(rows, np.int64).T
    tors = [(end - size.first_nic) // size.nics_of_tor for end in (src, dst)]
    return JobFlows(tors[0], tors[1], src * 4096 + dst, ring, rounds_of)


def ecmp(clos: Clos, flows: Flows) -> Ints:
    """Return spines by a hash of each pair of NICs."""
    fabric, table = closes.fabric(clos, flows)
    assert flows.key is not None
    return baselines.ecmp(fabric, table, flows.key)


def annealing(clos: Clos, flows: Flows) -> Ints:
    """Return spines by Hedera's simulated annealing, beginning with ECMP's."""
    fabric, table = closes.fabric(clos, flows)
    return baselines.anneal(
        fabric, table, flows.demand, ecmp(clos, flows), target=1.0, iterations=ANNEALING_STEPS
    )


def listed_order(clos: Clos, flows: Flows) -> Ints:
    """Return spines by the paper's greedy."""
    fabric, table = closes.fabric(clos, flows)
    return greedy.listed_order(fabric, table, flows.demand)


def hostcc(clos: Clos, flows: Flows) -> Ints:
    """Return spines by edge colouring, which is what hostcc does with equal demands."""
    return two_layer.route(clos, flows).spine


def optimum(clos: Clos, flows: Flows) -> Ints:
    """Return spines of the smallest largest load by the integer programme.

    Raises HostccError where the solver does not prove one in time.
    """
    found = routing_optimum.solve(clos, flows, seconds=SOLVER_SECONDS)
    if found.spine is None or not found.exact:
        raise HostccError(f"optimum: the solver found none within {SOLVER_SECONDS:g} s")
    return found.spine


METHODS: dict[str, Method] = {
    "ECMP": ecmp,
    "annealing": annealing,
    "greedy": listed_order,
    "hostcc (colouring)": hostcc,
    "ILP": optimum,
}


def kept(method: Method, clos: Clos, flows: Flows) -> Method:
    """Return a method by which each of `flows` stays where `method` puts it when all are sent."""
    assert flows.key is not None
    place = dict(zip(flows.key.tolist(), method(clos, flows).tolist(), strict=True))

    def choose(_: Clos, some: Flows) -> Ints:
        assert some.key is not None
        return np.array([place[key] for key in some.key.tolist()], np.int64)

    return choose


def clos_of(size: FabricSize, failed: int) -> Clos:
    """Return the fabric with its last `failed` spines gone."""
    whole = closes.uniform(size.tors, size.spines)
    return closes.without_spines(whole, range(size.spines - failed, size.spines))


def all_flows(jobs: Sequence[JobFlows]) -> Flows:
    """Return flows of some jobs, which all send at their NIC's rate."""
    src, dst, key = (
        np.concatenate([getattr(job, name) for job in jobs]) for name in ("src", "dst", "key")
    )
    return Flows(src, dst, np.ones(len(src)), key)


@dataclass
class _Routes:
    """Chooses the paths of all jobs that send; the same jobs get the same paths again."""

    method: Method
    clos: Clos
    jobs: Sequence[JobFlows]
    known: dict[tuple[int, ...], Orders] = field(default_factory=dict)

    def __call__(self, now: float, running: Ints, sending: Ints) -> Orders:  # noqa: ARG002
        who = tuple(sending.tolist())
        if who and who not in self.known:
            flows = all_flows([self.jobs[job] for job in who])
            spines = iter(self.method(self.clos, flows).tolist())
            routes = {}
            for job in who:
                own = self.jobs[job]
                ends = zip(own.src.tolist(), own.dst.tolist(), strict=True)
                for index, (src, dst) in enumerate(ends):
                    routes[job, index] = links(self.clos, src, dst, next(spines))
            self.known[who] = Orders(routes=routes)
        return self.known.get(who, Orders())


def links(clos: Clos, src: int, dst: int, spine: int) -> tuple[int, ...]:
    """Return the links of a flow; none within a ToR."""
    if src == dst:
        return ()
    cells = clos.tors * clos.spines
    return src * clos.spines + spine, cells + dst * clos.spines + spine


def all_reduces(
    jobs: Sequence[RingJob], size: FabricSize, method: Method, failed: int, iterations: int
) -> list[list[float]]:
    """Return seconds of each job's all-reduce in each iteration: of its slowest ring."""
    clos = clos_of(size, failed)
    rate = size.rate / 8
    flows = [flows_of(job, size) for job in jobs]
    made = []
    for job, own in zip(jobs, flows, strict=True):
        # On spine 0 until the job sends, when the method chooses.
        columns = (own.src, own.dst, own.rounds, own.ring)
        sent = tuple(
            SimFlow(job.bytes, links(clos, src, dst, 0), rate=rate, rounds=rounds, ring=ring)
            for src, dst, rounds, ring in zip(*(one.tolist() for one in columns), strict=True)
        )
        begun = job.start_s - job.compute_s
        made.append(SimJob(job.compute_s, job.compute_s, sent, begun, iterations))
    capacity = np.concatenate([clos.up.ravel(), clos.down.ravel()]) * rate
    options = Options(recorded=range(len(made)), tell_sending=True)
    found = simulate(
        Fabric.of(capacity),
        pack(made),
        END_S,
        None,
        options,
        detailed=_Routes(method, clos, flows),
    )
    times = []
    for index, one in enumerate(made):
        ends = found.recorded_end[found.recorded_job == index]
        if len(ends) != iterations:
            raise HostccError(f"{jobs[index].model}: {iterations} iterations did not end")
        times.append((np.diff(ends, prepend=one.start) - one.compute).tolist())
    return times
