"""A lab scenario: TOML in, a frozen and bounded description of fabric, jobs and events out.

Every wrong key, type, range and size is refused with one line naming file, key and
expectation.  Times are in the unit that the key's name ends with; rates are Mbit/s on the
wire (Ethernet headers included, as a switch port counts them).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from hostcc.limits import JOB_NAME, JOB_NAME_WORDS, VISIBLE
from hostcc.system import toml_file
from hostcc.system.validate import convert, refusal

MAX_FILE_BYTES = 1 << 20
MAX_HOSTS = 64
KINDS = ("dumbbell", "leaf-spine")
BUILTIN_DIRECTORY = Path(__file__).parent / "scenarios"

Name = Annotated[str, Meta(pattern=JOB_NAME, description=JOB_NAME_WORDS)]
Argument = Annotated[str, Meta(pattern=r"^[^\x00]{0,4096}\Z", description="an argument")]
Milliseconds = Annotated[float, Meta(ge=0, le=3_600_000)]
Count = Annotated[int, Meta(ge=1, le=100_000)]
Section = Annotated[str, Meta(pattern=rf"^{VISIBLE}{{1,64}}\Z", description="a section's name")]
CongestionControl = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9_-]{1,15}\Z", description="1 to 15 characters of A-Z a-z 0-9 _ -"),
]
Problem = tuple[str, str, object]
"""Key, what was expected, what was found."""


class FabricSpec(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One bottleneck between two switches, hosts on both sides."""

    kind: Literal["dumbbell"] = "dumbbell"
    rate_mbit: Annotated[float, Meta(ge=1, le=10_000)] = 200.0
    """Rate of the bottleneck, each direction."""
    buffer_packets: Annotated[int, Meta(ge=2, le=100_000)] = 60
    """Bottleneck queue in full-size packets, each direction."""
    base_rtt_us: Annotated[int, Meta(ge=0, le=1_000_000)] = 50
    """Round-trip time without queueing; up to 50: plain veth, more: a delay line."""
    mtu: Annotated[int, Meta(ge=1280, le=9000)] = 1500
    ecn_threshold_packets: Annotated[int, Meta(ge=0, le=100_000)] = 0
    """Queue length at which packets that allow it are marked CE; 0: no marking."""
    gso_max_segs: Annotated[int, Meta(ge=1, le=64)] = 2
    """Largest burst that a host hands to its link at once, packets."""
    rto_min_us: Annotated[int, Meta(ge=1000, le=1_000_000)] = 5000
    """Minimum retransmission timeout of every host."""


class JobSpec(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A training job: compute, exchange, repeat; or any command."""

    name: Name
    hosts: Annotated[int, Meta(ge=2, le=32)] = 2
    flows: Annotated[int, Meta(ge=1, le=64)] = 1
    """Connections from each host to each peer that it sends to."""
    compute_ms: Milliseconds = 0.0
    comm_ms: Milliseconds = 0.0
    """Communication time of an iteration with the bottleneck to itself; or give `bytes`."""
    bytes: Annotated[int, Meta(ge=0, le=1 << 40)] = 0
    """Bytes that each sending host sends per iteration; 0: from comm_ms."""
    pattern: Literal["push", "allreduce"] = "push"
    start_ms: Milliseconds = 0.0
    iterations: Annotated[int, Meta(ge=0, le=100_000)] = 0
    """Leaves after so many; 0: stays until every job has done the run's iterations."""
    stop_after_ms: Milliseconds = 0.0
    """Leaves at the iteration boundary after this time; 0: see iterations."""
    jitter_percent: Annotated[float, Meta(ge=0, le=100)] = 0.0
    """Compute time varies uniformly by up to this much either way."""
    bytes_jitter_percent: Annotated[float, Meta(ge=0, le=99)] = 0.0
    """Bytes vary likewise, from iteration to iteration; with pattern = "push"."""
    bursts: Annotated[int, Meta(ge=1, le=64)] = 1
    """Equal parts of an iteration's bytes, sent one after the other; with pattern = "push"."""
    burst_pause_ms: Milliseconds = 0.0
    """Computing between two bursts; it is a part of compute_ms."""
    change_at_iteration: Annotated[int, Meta(ge=0, le=100_000)] = 0
    """The iteration from which on the job is another one; 0: it stays as it is."""
    change_bytes_factor: Annotated[float, Meta(gt=0, le=100)] = 1.0
    """Times its bytes, from then on."""
    change_pause_ms: Milliseconds = 0.0
    """Computing in that one iteration besides compute_ms, as for a checkpoint."""
    declare_bytes: bool = False
    """Whether `hostcc run` is told the bytes per iteration."""
    command: Annotated[tuple[Argument, ...], Meta(max_length=256)] = ()
    """Run this on each host instead of the built-in traffic."""
    barrier: bool = False
    """The command prints `ready` and waits for a line on its standard input before it starts."""


class BackgroundSpec(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Traffic that belongs to no job, between a pair of hosts of its own, left to right."""

    kind: Literal["bulk", "udp"]
    name: Name = "background"
    rate_mbit: Annotated[float, Meta(ge=0, le=10_000)] = 0.0
    """Rate on the wire; needed for udp, ignored for bulk."""
    flows: Annotated[int, Meta(ge=1, le=64)] = 1
    start_ms: Milliseconds = 0.0
    stop_ms: Milliseconds = 0.0
    """0: until the run ends."""
    congestion_control: CongestionControl = "cubic"


class VariantSpec(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the jobs' sockets run: an agent with this configuration, or a kernel control."""

    name: Name
    congestion_control: CongestionControl | None = None
    """The hosts' default control; without an agent all there is."""
    agent: dict[Section, Any] | None = None
    """Present: each host runs an agent with this configuration on top of the scenario's."""


class ActionSpec(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Something done in mid-run."""

    run: (
        Annotated[str, Meta(pattern=r"^[^\x00]{1,4096}\Z", description="words")]
        | Annotated[tuple[Argument, ...], Meta(min_length=1, max_length=256)]
    )
    """`unfair ...` or `rollback` on every agent, `kill-agent` or `restart-agent HOST|JOB|all`, or
    a list: a command."""
    at_ms: Milliseconds | None = None
    at_iteration: Count | None = None
    """When the first job has done so many iterations."""


class Scenario(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole scenario."""

    title: Annotated[
        str,
        Meta(pattern=rf"^{VISIBLE}{{0,200}}\Z", description="at most 200 visible characters"),
    ] = ""
    iterations: Count = 60
    """Iterations that every job does at least."""
    alone_iterations: Annotated[int, Meta(ge=0, le=10_000)] = 8
    """Iterations of each job by itself, for the ratio; 0: the computed ideal is used."""
    compare: Annotated[tuple[Name, ...], Meta(max_length=32)] = ("cubic",)
    """Variants to run when the command line names none."""
    fabric: FabricSpec = FabricSpec()
    job: Annotated[tuple[JobSpec, ...], Meta(max_length=32)] = ()
    background: Annotated[tuple[BackgroundSpec, ...], Meta(max_length=16)] = ()
    variant: Annotated[tuple[VariantSpec, ...], Meta(max_length=32)] = ()
    action: Annotated[tuple[ActionSpec, ...], Meta(max_length=64)] = ()
    gossip: bool = False
    """Whether the agents gossip with each other, over the lab's own network."""
    agent: dict[Section, Any] = {}
    """Laid over the configuration of every agent; its sub-tables are those of hostcc.toml."""


def load(path: Path) -> Scenario:
    """Read and check a scenario file; raises InputError."""
    return from_document(toml_file.load(path, MAX_FILE_BYTES), str(path))


def from_document(document: Mapping[str, Any], where: str) -> Scenario:
    """Turn parsed TOML into a Scenario; raises InputError that begins with `where`."""
    from hostcc.lab import leafspine_scenario

    if _kind(document, where) == "leaf-spine":
        placed = convert(document, leafspine_scenario.LeafSpineScenario, where)
        _refuse(leafspine_scenario.check(placed), where)
        return leafspine_scenario.completed(placed)
    scenario = convert(document, Scenario, where)
    _refuse(check(scenario), where)
    return scenario


def _refuse(problems: Iterator[Problem], where: str) -> None:
    for key, expected, got in problems:
        raise refusal(where, key, expected, got)


def check(scenario: Scenario) -> Iterator[Problem]:
    """What is wrong with keys that are fine one by one."""
    if not scenario.job and not scenario.background:
        yield "job", "at least one [[job]] or [[background]]", "none"
    yield from check_names("job", [job.name for job in scenario.job])
    yield from check_names("variant", [variant.name for variant in scenario.variant])
    for index, job in enumerate(scenario.job):
        yield from check_job(f"job[{index}]", job)
    for index, background in enumerate(scenario.background):
        yield from check_background(f"background[{index}]", background)
    yield from check_actions(scenario.action)
    hosts = sum(job.hosts for job in scenario.job) + 2 * len(scenario.background)
    if hosts > MAX_HOSTS:
        yield "job", f"at most {MAX_HOSTS} hosts in all, two for each background", hosts


def _kind(document: Mapping[str, Any], where: str) -> str:
    """Of the fabric."""
    fabric = document.get("fabric")
    kind = fabric.get("kind", KINDS[0]) if isinstance(fabric, Mapping) else KINDS[0]
    if kind not in KINDS:
        raise refusal(where, "fabric.kind", f"one of {', '.join(KINDS)}", kind)
    return str(kind)


def check_names(key: str, names: Sequence[str]) -> Iterator[Problem]:
    """Names that are used twice."""
    for index, name in enumerate(names):
        if names.index(name) != index:
            yield f"{key}[{index}].name", "a name used once", name


def check_job(key: str, job: JobSpec, *, even: bool = True) -> Iterator[Problem]:
    """What is wrong with a job; `even`: half of a ring's hosts have to be on each side."""
    if job.command:
        return
    if bool(job.bytes) == bool(job.comm_ms):
        yield f"{key}.comm_ms", "either comm_ms or bytes above 0", job.comm_ms
    if job.pattern == "push" and job.hosts != 2:
        yield f"{key}.hosts", '2 with pattern = "push"', job.hosts
    if job.bytes_jitter_percent and job.pattern != "push":
        yield f"{key}.bytes_jitter_percent", '0, or pattern = "push"', job.bytes_jitter_percent
    if job.bursts > 1 and job.pattern != "push":
        yield f"{key}.bursts", '1, or pattern = "push"', job.bursts
    if (job.bursts - 1) * job.burst_pause_ms > job.compute_ms:
        yield f"{key}.burst_pause_ms", "all pauses together within compute_ms", job.burst_pause_ms
    if even and job.hosts % 2:
        yield f"{key}.hosts", "an even number, half of them on each side", job.hosts


def check_background(key: str, background: BackgroundSpec) -> Iterator[Problem]:
    """What is wrong with background traffic."""
    if background.kind == "udp" and background.rate_mbit <= 0:
        yield f"{key}.rate_mbit", 'a rate above 0 with kind = "udp"', background.rate_mbit
    if background.stop_ms and background.stop_ms <= background.start_ms:
        yield f"{key}.stop_ms", "0 or more than start_ms", background.stop_ms


VERBS: Mapping[str, int | None] = MappingProxyType(
    {"unfair": None, "rollback": 0, "kill-agent": None, "restart-agent": None}
)
"""Verbs of actions on agents -> number of words after them; None: one or more."""


def check_actions(
    actions: Sequence[ActionSpec], events: Mapping[str, int | None] = MappingProxyType({})
) -> Iterator[Problem]:
    """What is wrong with actions; `events`: verbs of the fabric's own, and their words."""
    for index, action in enumerate(actions):
        key = f"action[{index}]"
        if (action.at_ms is None) == (action.at_iteration is None):
            yield f"{key}.at_ms", "either at_ms or at_iteration", action.at_ms
        if not isinstance(action.run, str):
            continue
        verb, *words = action.run.split() or [""]
        known = {**VERBS, **events}
        if verb not in known:
            verbs = ", ".join(f'"{name} ..."' for name in known)
            yield f"{key}.run", f"{verbs} or a list", action.run
        elif (len(words) != known[verb]) if known[verb] is not None else not words:
            count = "one or more" if known[verb] is None else known[verb]
            yield f"{key}.run", f'"{verb}" and {count} words', action.run


def find(name: str) -> Path:
    """The file of a scenario given as a path or as the name of a built-in one.

    Raises InputError when there is neither.
    """
    path = Path(name)
    if path.suffix == ".toml" or "/" in name:
        return path
    if name not in builtins():
        raise refusal("scenario", "", f"a .toml file or one of {', '.join(builtins())}", name)
    return BUILTIN_DIRECTORY / f"{name}.toml"


def builtins() -> list[str]:
    """Names of the scenarios that come with hostcc."""
    return sorted(path.stem for path in BUILTIN_DIRECTORY.glob("*.toml"))
