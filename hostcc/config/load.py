"""Loads the configuration: one file and its drop-ins, accepted or refused as a whole.

Drop-ins are `NAME.d/*.toml` beside `NAME.toml`, in the order of their names. A later file wins key
by key; `[[job]]` entries of one name are merged.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from hostcc.config import newer_keys
from hostcc.config.schema import Config, expand_ports, shape_of
from hostcc.config.sections.agent import AgentConfig
from hostcc.config.sections.gossip import GossipConfig
from hostcc.config.sections.job import JobConfig
from hostcc.config.sections.paths import PathsConfig
from hostcc.config.sections.words import AbsolutePath
from hostcc.coord.net import address
from hostcc.errors import InputError, one_line
from hostcc.limits import MAX_PORTS, WEIGHT_MAX, WEIGHT_MIN
from hostcc.log import get_logger
from hostcc.mltcp.params import Shape, ShapeKind
from hostcc.paths.egress_queues import MAX_CLASSES
from hostcc.system import ownership, toml_file
from hostcc.system.validate import convert, refusal
from hostcc.version import version

log = get_logger("config")
MAX_FILE_BYTES = 1 << 20
MAX_DROP_INS = 256
MAX_SOCKET_BYTES = 107
"""Longest path of a UNIX socket (sockaddr_un)."""

Problem = tuple[str, str, object]
"""(Key path, what was expected, what was found)."""


@dataclass
class _MergedFiles:
    """The files read so far, merged, with the file that set each key last."""

    data: dict[str, Any] = field(default_factory=dict)
    origin: dict[str, str] = field(default_factory=dict)

    def add(self, data: dict[str, Any], where: str) -> None:
        for section, content in data.items():
            if section == "job":
                self._add_jobs(content, where)
            else:
                self.data.setdefault(section, {}).update(content)
                self.origin.update({f"{section}.{key}": where for key in content})

    def _add_jobs(self, jobs: list[dict[str, Any]], where: str) -> None:
        have: list[dict[str, Any]] = self.data.setdefault("job", [])
        for job in jobs:
            same = next((old for old in have if old["name"] == job["name"]), None)
            if same is None:
                same = {}
                have.append(same)
            same.update(job)
            at = have.index(same)
            self.origin.update({f"job[{at}].{key}": where for key in job})


@dataclass(frozen=True)
class LoadedConfig:
    """A configuration whose keys are valid one by one, but not checked together yet."""

    config: Config
    path: Path
    origin: Mapping[str, str]
    """Key -> the file that set it last."""
    ignored: tuple[str, ...] = ()
    """Keys of newer versions, each with its file, in a line."""

    def file_of(self, key: str) -> str:
        """Return the file that set a key, or the main file."""
        return self.origin.get(key, str(self.path))

    def refusal(self, key: str, expected: str, got: object) -> InputError:
        """Return the error for a key, which names its file."""
        return refusal(self.file_of(key), key, expected, got)


def load(path: Path, must_exist: bool = True) -> Config:
    """Return the configuration in `path` and its drop-ins.

    Raises InputError with one line that names file, key and expectation. With `must_exist` false a
    missing file means the defaults, since the packaged path may be absent.
    """
    loaded = read(path, must_exist)
    for line in loaded.ignored:
        log.warning(line)
    for problem in check(loaded.config):
        raise loaded.refusal(*problem)
    return loaded.config


def read(path: Path, must_exist: bool = True) -> LoadedConfig:
    """Read the configuration without checking keys together (see `check`). Raises InputError."""
    merged, ignored = _MergedFiles(), list[str]()
    raw = {file: _raw(file) for file in files(path, must_exist)}
    unknown, own = newer_keys.newer(_state_dir(raw.values()), version()), newer_keys.known()
    for file, given in raw.items():
        where = str(file)
        data, late = newer_keys.without(given, unknown, own)
        ignored += (f"{where}: {key}: ignored, a key of a newer version" for key in late)
        config = convert(data, Config, where)
        names: set[str] = set()
        for index, job in enumerate(config.job):
            if job.name in names:
                raise refusal(where, f"job[{index}].name", "a name used once", job.name)
            names.add(job.name)
        merged.add(data, where)
    whole = convert(merged.data, Config, str(path))
    return LoadedConfig(whole, path, merged.origin, tuple(map(one_line, ignored)))


def _raw(file: Path) -> dict[str, Any]:
    if file.is_fifo():  # the agent reads it again on reload, and must not wait for a writer
        raise InputError(f"{file}: expected a file, got a pipe")
    ownership.check_path(file)
    return toml_file.load(file, MAX_FILE_BYTES)


def _state_dir(raw: Iterable[dict[str, Any]]) -> Path:
    """Where earlier agents of this configuration kept what they knew."""
    found = AgentConfig()
    for data in raw:
        try:
            found = msgspec.convert(data.get("agent", {}), _RunDir).over(found)
        except msgspec.ValidationError:  # it is refused later, with its place
            continue
    return found.state_dir


class _RunDir(msgspec.Struct, frozen=True):
    run_dir: AbsolutePath | None = None

    def over(self, earlier: AgentConfig) -> AgentConfig:
        return earlier if self.run_dir is None else AgentConfig(run_dir=self.run_dir)


def files(path: Path, must_exist: bool) -> list[Path]:
    """Return the main file, if it exists, and its drop-ins. Raises InputError."""
    found = []
    if must_exist or path.exists():
        found.append(path)
    folder = path.with_suffix(".d")
    ownership.check_path(folder)
    try:
        drop_ins = sorted(p for p in folder.iterdir() if p.suffix == ".toml")
    except (FileNotFoundError, NotADirectoryError):
        drop_ins = []
    except OSError as error:
        raise InputError(f"{folder}: expected a readable folder, got: {error.strerror}") from None
    if len(drop_ins) > MAX_DROP_INS:
        raise refusal(str(folder), "", f"at most {MAX_DROP_INS} files", len(drop_ins))
    return found + drop_ins


def present(path: Path) -> bool:
    """Whether there is a configuration: the main file, or a drop-in."""
    return path.exists() or any(path.with_suffix(".d").glob("*.toml"))


def check(config: Config) -> Iterator[Problem]:
    """Yield the problems of keys that are valid one by one but not together."""
    agent, mltcp = config.agent, config.mltcp
    if agent.heartbeat_stale_s < 2 * agent.heartbeat_s:
        yield (
            "agent.heartbeat_stale_s",
            f"at least twice heartbeat_s ({agent.heartbeat_s:g})",
            agent.heartbeat_stale_s,
        )
    if len(str(config.socket_path).encode()) > MAX_SOCKET_BYTES:
        key = "agent.socket" if agent.socket else "agent.run_dir"
        yield key, f"a socket path of at most {MAX_SOCKET_BYTES} bytes", str(config.socket_path)
    if not config.marks.socket and len(config.marks_path.encode()) > MAX_SOCKET_BYTES:
        words = f"a marks.sock path of at most {MAX_SOCKET_BYTES} bytes"
        yield "agent.run_dir", words, config.marks_path
    port = agent.metrics_listen.rpartition(":")[2]
    if port and not 1 <= int(port) <= 65535:
        yield "agent.metrics_listen", "a port from 1 to 65535", agent.metrics_listen
    if agent.metrics_user and not agent.metrics_certificate:
        words = "nothing without agent.metrics_certificate: a password needs TLS"
        yield "agent.metrics_user", words, agent.metrics_user
    yield from _check_places(config)
    yield from _check_targets(
        "mltcp", mltcp.delay_target_min_us, mltcp.delay_target_max_us, "delay_target_max_us"
    )
    yield from _check_shape("mltcp", shape_of(mltcp, None))
    for index, job in enumerate(config.job):
        at = f"job[{index}]"
        low = job.delay_target_min_us or mltcp.delay_target_min_us
        high = job.delay_target_max_us or mltcp.delay_target_max_us
        key = "delay_target_min_us" if job.delay_target_max_us is None else "delay_target_max_us"
        yield from _check_targets(at, low, high, key)
        yield from _check_shape(at, shape_of(mltcp, job))
    yield from _check_ports(config.job)
    yield from _check_gossip(config.gossip)
    yield from _check_paths(config.paths)
    yield from _check_levels(config)


def _check_targets(at: str, low: int, high: int, key: str) -> Iterator[Problem]:
    if low >= high:
        words = f"delay_target_min_us ({low}) below delay_target_max_us ({high})"
        yield f"{at}.{key}", words, low if key.endswith("min_us") else high


def _check_shape(at: str, shape: Shape) -> Iterator[Problem]:
    """Check that F stays within the bounds of a weight; linear and exponential peak at the ends."""
    if shape.kind is ShapeKind.TABLE:
        if len(shape.table) < 2:
            yield f"{at}.table", 'at least 2 numbers, for shape = "table"', shape.table
        return
    if shape.kind is ShapeKind.LINEAR:
        last = shape.intercept + shape.slope
    else:
        last = shape.intercept * 2.0**shape.slope
    if not WEIGHT_MIN <= last <= WEIGHT_MAX:
        words = f"F(1) from {WEIGHT_MIN:g} to {WEIGHT_MAX:g} (slope and intercept give {last:.4g})"
        yield f"{at}.slope", words, shape.slope


def _check_places(config: Config) -> Iterator[Problem]:
    """Check that each socket has a path of its own, and each TCP port one listener."""
    taken = {str(config.socket_path): "the control socket"}
    for key, path, what, used in (
        ("marks.socket", config.marks_path, "the marks socket", config.marks.enabled),
        ("paths.socket", config.paths.socket, "the telemetry socket", config.paths.enabled),
    ):
        if used and path and taken.setdefault(path, what) != what:
            yield key, f"another path than {taken[path]}", path
    metrics, gossip = config.agent.metrics_listen, config.gossip
    if metrics and gossip.enabled and gossip.listen == metrics:
        yield "gossip.listen", "another address than agent.metrics_listen", gossip.listen


def _check_ports(jobs: tuple[JobConfig, ...]) -> Iterator[Problem]:
    taken: dict[tuple[int, bool], str] = {}
    for index, job in enumerate(jobs):
        for remote, ports in ((False, job.local_ports), (True, job.remote_ports)):
            key = f"job[{index}].{'remote' if remote else 'local'}_ports"
            for item, span in zip(ports, expand_ports(ports), strict=True):
                if not span:
                    yield key, "LOW-HIGH with 1 <= LOW <= HIGH <= 65535", item
                for port in span:
                    owner = taken.setdefault((port, remote), job.name)
                    if owner != job.name:
                        yield key, f"ports that are not job {owner}'s already", item
                        break
                if len(taken) > MAX_PORTS:
                    yield key, f"at most {MAX_PORTS} ports in all rules", item
                    return


def _check_levels(config: Config) -> Iterator[Problem]:
    """Check that levels exist and have distinct marks, and that queues have marks to act on."""
    plan, marking, egress = config.plan, config.marking, config.egress
    left = set(range(plan.levels)) - set(plan.reserved)
    if not left or max(plan.reserved, default=0) >= plan.levels:
        words = f"levels from 0 to {plan.levels - 1}, and one left for jobs"
        yield "plan.reserved", words, plan.reserved
        return
    if marking.enabled and len(marking.dscp) != plan.levels:
        yield "marking.dscp", f"a DSCP for each of plan.levels, {plan.levels}", marking.dscp
    elif marking.enabled and len({marking.dscp[level] for level in left}) < len(left):
        yield "marking.dscp", "each DSCP once among the levels not reserved", marking.dscp
    if config.rdma.dscp and len(config.rdma.dscp) != plan.levels:
        yield "rdma.dscp", f"a DSCP for each of plan.levels, {plan.levels}", config.rdma.dscp
    if egress.queues == "off":
        return
    if not marking.enabled:
        yield "egress.queues", "off without marking.enabled, there would be no marks", egress.queues
    if not egress.devices:
        yield "egress.devices", "at least one device", egress.devices
    if len(left) >= MAX_CLASSES:
        words = f"levels that leave jobs less than {MAX_CLASSES} of them, for [egress]"
        yield "plan.levels", words, plan.levels


def _check_gossip(gossip: GossipConfig) -> Iterator[Problem]:
    """Check that addresses can be bound and dialled; without keys loopback, unless insecure."""
    numbers = "ADDRESS:PORT or [IPV6]:PORT, in numbers"
    listen = _numeric(gossip.listen)
    if gossip.listen and listen is None:
        yield "gossip.listen", numbers, gossip.listen
    elif listen and not (gossip.keys or gossip.insecure or listen.is_loopback):
        words = "a loopback address without keys, unless insecure = true"
        yield "gossip.listen", words, gossip.listen
    if gossip.advertise and address.parse_numeric(gossip.advertise) is None:
        yield "gossip.advertise", numbers, gossip.advertise
    for seed in gossip.seeds:
        try:
            (address.parse_dns_seed if address.is_dns_seed(seed) else address.parse_seed)(seed, "")
        except InputError:
            words = "NAME@HOST:PORT of each member, or dns:NAME:PORT, with a port from 1 to 65535"
            yield "gossip.seeds", words, seed


def _check_paths(paths: PathsConfig) -> Iterator[Problem]:
    """Check the order of ports, the file of a source that needs one, and the form of addresses."""
    if paths.first_port > paths.last_port:
        yield "paths.last_port", f"at least first_port ({paths.first_port})", paths.last_port
    by_socket = paths.source == "telemetry" and paths.socket
    if paths.source != "probe" and not paths.file and not by_socket:
        yield "paths.file", f'an absolute path, for source = "{paths.source}"', paths.file
    if len(paths.socket.encode()) > MAX_SOCKET_BYTES:
        yield "paths.socket", f"a path of at most {MAX_SOCKET_BYTES} bytes", paths.socket
    for one in paths.addresses:
        try:
            good = str(ipaddress.ip_address(one)) == one
        except ValueError:
            good = False
        if not good:
            yield "paths.addresses", "IP addresses, as the kernel writes them", one


def _numeric(text: str) -> address.Address | None:
    try:
        found = address.parse(text, "")
    except InputError:
        return None
    return found if found.is_numeric else None
