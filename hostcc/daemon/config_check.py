"""Does a configuration fit this host?  What a start and its parts would refuse, beforehand.

Nothing is changed and nothing stays open.  Where an agent of this run directory is running, what it
holds itself counts as free.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import socket
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hostcc.config.schema import Config
from hostcc.config.sections.agent import AgentConfig
from hostcc.config.sections.gossip import GossipConfig
from hostcc.config.sections.pcie import PcieConfig
from hostcc.coord.net.address import Address
from hostcc.daemon import preflight
from hostcc.daemon.api.credentials import group_id
from hostcc.daemon.api.metrics_access import MetricsAccess
from hostcc.daemon.lockfile import holder, locker
from hostcc.errors import HostccError, InputError, one_line
from hostcc.measure.rdma_counters import read_ports
from hostcc.system import ownership
from hostcc.system.cgroups import resolve_root

if TYPE_CHECKING:
    from hostcc.coord.net.service import ServiceSettings


class ConfigProblem(NamedTuple):
    """One key that does not fit."""

    key: str
    expected: str
    got: object
    stops: bool = False
    """Whether an agent cannot start for as long as it is like this."""

    def line(self, file: str) -> str:
        """For people; `file`: where the key was set."""
        return one_line(f"{file}: {self.key}: expected {self.expected}, got {self.got}")


def misfits(config: Config) -> Iterator[ConfigProblem]:
    """All that is known without starting, in the order of the sections."""
    lock = Path(config.agent.run_dir) / "agent.lock"
    agent = holder(lock)
    running = agent != 0
    yield from _host(config.agent, {agent, locker(lock)})
    yield from _agent(config, running)
    yield from _marks(config, running)
    if config.gossip.enabled:
        yield from _gossip(config, running)
    if config.paths.enabled:
        yield from _paths(config, running)
    if config.egress.queues != "off":
        yield from _egress(config)
    yield from _rdma(config)
    if config.pcie.enabled:
        yield from _pcie(config.pcie)


def _host(agent: AgentConfig, own: set[int]) -> Iterator[ConfigProblem]:
    """`own`: the process of this run directory's agent, as it and as this process numbers it."""
    if agent.observe_only:
        return
    for text in preflight.missing(agent.cgroup_root):
        if not text.startswith("cgroup"):
            yield ConfigProblem("agent.observe_only", f"true without {text}", "false", stops=True)
    try:
        root = resolve_root(agent.cgroup_root)
    except HostccError as error:
        yield ConfigProblem("agent.cgroup_root", "a cgroup v2 directory", error, stops=True)
        return
    if why := _unwritable(root):
        yield ConfigProblem("agent.cgroup_root", "one that can be written to", why, stops=True)
    elif (other := locker(root)) and other not in own:
        words = "one that no other agent manages"
        yield ConfigProblem("agent.cgroup_root", words, f"{root}, managed by process {other}")


def _agent(config: Config, running: bool) -> Iterator[ConfigProblem]:
    agent = config.agent
    if why := _unmakable(Path(agent.run_dir)):
        yield ConfigProblem("agent.run_dir", "a directory that can be made", why, stops=True)
    try:
        ownership.check_path(Path(agent.run_dir))
    except InputError as error:
        yield ConfigProblem(
            "agent.run_dir", "a directory that only root writes to", error, stops=True
        )
    key = "agent.socket" if agent.socket else "agent.run_dir"
    yield from _socket(key, config.socket_path, socket.SOCK_STREAM, config, running)
    if agent.socket_group != AgentConfig().socket_group:
        yield from _group("agent.socket_group", agent.socket_group)
    if agent.metrics_listen:
        if importlib.util.find_spec("prometheus_client") is None:
            words = "nothing without the Python package prometheus_client"
            yield ConfigProblem("agent.metrics_listen", words, agent.metrics_listen, stops=True)
        host, _, port = agent.metrics_listen.rpartition(":")
        yield from _listen("agent.metrics_listen", host.strip("[]"), int(port), running)
        try:
            MetricsAccess(agent.metrics_certificate, agent.metrics_user)
        except InputError as error:
            key, _, words = str(error).partition(": ")
            yield ConfigProblem(key, "files that can be used", words, stops=True)


def _marks(config: Config, running: bool) -> Iterator[ConfigProblem]:
    path = config.marks_path
    if not config.marks.enabled or path.startswith("@"):
        return
    key = "marks.socket" if config.marks.socket else "agent.run_dir"
    yield from _socket(key, Path(path), socket.SOCK_DGRAM, config, running)


def _gossip(config: Config, running: bool) -> Iterator[ConfigProblem]:
    """Imports what a member needs only where there is to be one."""
    from hostcc.daemon.gossip.member_settings import key_directory, settings
    from hostcc.version import version

    gossip, keys = config.gossip, key_directory(config)
    if keys is None and gossip.keys not in {"", GossipConfig().keys}:
        yield ConfigProblem(
            "gossip.keys", "a directory with a host.key (hostcc keys new)", gossip.keys
        )
    try:
        member = settings(config, version())
    except HostccError as error:
        key = "gossip.name" if keys is None else "gossip.keys"
        yield ConfigProblem(key, "a name and keys of a member", error)
        return
    if keys is not None:
        yield from _keys(keys, member, running)
        if member.dns_seeds and not (keys / "authorities").is_dir():
            words = "an authority (hostcc keys add) for members that are found by DNS"
            yield ConfigProblem("gossip.seeds", words, f"dns:{member.dns_seeds[0]}")
    elif not gossip.insecure:
        if not member.listen.is_loopback:
            words = "a loopback address without keys, unless insecure = true"
            yield ConfigProblem("gossip.listen", words, gossip.listen)
        elif far := [str(at) for _, at in member.seeds if _elsewhere(at)]:
            words = "members of this host only without keys, unless insecure = true"
            yield ConfigProblem("gossip.seeds", words, far[0])
    yield from _listen("gossip.listen", member.listen.host, member.listen.port, running)


def _keys(directory: Path, member: ServiceSettings, running: bool) -> Iterator[ConfigProblem]:
    from hostcc.coord.keys import files
    from hostcc.coord.keys.allow_list import AllowDirectory
    from hostcc.coord.keys.certificate_book import CertificateBook
    from hostcc.coord.keys.keyring import read_certificate
    from hostcc.coord.keys.trust_directory import TrustDirectory

    try:
        host = files.read_secret(directory)
        allowed = AllowDirectory(files.allowed_directory(directory), quiet=True).load()
        trusted = TrustDirectory(files.authority_directory(directory), quiet=True)
        trusted.read()
        book = CertificateBook()
        book.trust(trusted.trust.authorities)
        read_certificate(directory, host, book)
    except HostccError as error:
        yield ConfigProblem("gossip.keys", "keys as `hostcc keys` makes them", error)
        return
    if host.name != member.name:
        yield ConfigProblem("gossip.name", f"{host.name}, as in {directory}", member.name)
    for file, why in sorted(allowed.skipped.items()):
        yield ConfigProblem("gossip.keys", f"a member's public keys in allowed/{file}", why)
    for file, why in trusted.trust.skipped:
        yield ConfigProblem("gossip.keys", f"an authority's file in authorities/{file}", why)
    if book.authorities:
        at = member.listen
        yield from _listen("gossip.listen", at.host, at.port, running, socket.SOCK_DGRAM)
    for seed, _ in member.seeds:
        if seed not in allowed.members and not book.authorities:
            yield ConfigProblem(
                "gossip.seeds", "members on the allow-list (hostcc keys allow)", seed
            )


def _paths(config: Config, running: bool) -> Iterator[ConfigProblem]:
    from hostcc.daemon.steering.nics import nics
    from hostcc.paths.hash_file import read as read_hashes
    from hostcc.paths.sources import StaticSource

    paths, file = config.paths, Path(config.paths.file)
    for section in ("gossip", "measure"):
        if not getattr(config, section).enabled:
            yield ConfigProblem("paths.enabled", f"false without {section}.enabled", "true")
    ports = range(paths.first_port, paths.last_port + 1)
    readers: dict[str, Callable[[], object]] = {
        "static": lambda: StaticSource.read(file),
        "hash": lambda: read_hashes(file, ports),
    }
    trials: list[tuple[str, str, Callable[[], object]]] = [
        ("paths.devices", "devices of this host", lambda: nics(paths.devices))
    ]
    if paths.source in readers:
        words = f'a file for source = "{paths.source}"'
        trials.append(("paths.file", words, readers[paths.source]))
    if paths.steer and not config.agent.observe_only:
        words = "false where net.ipv4.ip_local_reserved_ports cannot be written"
        reserve = partial(_reserve, paths.first_port, paths.last_port)
        trials.append(("paths.steer", words, reserve))
    if paths.source == "telemetry" and paths.socket:
        where = Path(paths.socket).parent
        words = "a socket in a directory that only root writes to"
        trials.append(("paths.socket", words, lambda: ownership.check_directory(where)))
        yield from _group("paths.socket_group", paths.socket_group)
        yield from _socket("paths.socket", Path(paths.socket), socket.SOCK_DGRAM, config, running)
    for key, expected, trial in trials:
        try:
            trial()
        except HostccError as error:
            yield ConfigProblem(key, expected, error)


def _reserve(first: int, last: int) -> None:
    """Raises InputError where the ports are not reserved, and cannot be."""
    from hostcc.paths import reserve

    now, wanted = reserve.planned(first, last)
    if now != wanted and not os.access(reserve.SYSCTL, os.W_OK):
        raise InputError(f"true without ports {first}-{last} in it")


def _egress(config: Config) -> Iterator[ConfigProblem]:
    from hostcc.daemon.marking import queues
    from hostcc.paths import egress_kernel

    for device in config.egress.devices:
        try:
            there = egress_kernel.root(device)
            if there is None or not there.ours:
                queues.planned(config, device, there)
        except HostccError as error:
            words = "devices that can be given queues"
            yield ConfigProblem("egress.devices", words, f"{device}: {error}")


def _rdma(config: Config) -> Iterator[ConfigProblem]:
    """Files in shared memory, which are made only where there is an RDMA device."""
    if not config.rdma.enabled or not any(read_ports()):
        return
    places = [("rdma.plan", config.rdma.plan), ("rdma.counts", config.rdma.counts)]
    if config.pcie.enabled:
        places.append(("pcie.semaphores", config.pcie.semaphores))
    for key, place in places:
        if why := _unwritable(Path(place).parent):
            yield ConfigProblem(key, "a file in a directory that can be written to", why)


def _pcie(pcie: PcieConfig) -> Iterator[ConfigProblem]:
    from hostcc.daemon.rdma.pcie_turns import read_tree

    yield from _group("pcie.group", pcie.group)
    if pcie.topology:
        try:
            read_tree(pcie.topology)
        except HostccError as error:
            yield ConfigProblem("pcie.topology", "an NCCL topology file or hwloc export", error)


def _group(key: str, name: str) -> Iterator[ConfigProblem]:
    if name and group_id(name) is None:
        yield ConfigProblem(key, "a group of this host", name)


def _listen(
    key: str, host: str, port: int, running: bool, kind: int = socket.SOCK_STREAM
) -> Iterator[ConfigProblem]:
    """Whether an address could be listened on; it may become this host's later."""
    try:
        family, _, proto, _, address = socket.getaddrinfo(
            host, port, type=kind, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, proto) as trial:
            if kind == socket.SOCK_STREAM:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
            if kind == socket.SOCK_STREAM:
                trial.listen(1)  # what another one listens on can be bound, but not this
    except OSError as error:
        if error.errno != errno.EADDRINUSE or not running:
            words = "an address of this host that nobody listens on"
            over = " (UDP)" if kind == socket.SOCK_DGRAM else ""
            yield ConfigProblem(key, words, f"{host}:{port}{over}: {error.strerror}")


def _socket(
    key: str, path: Path, kind: int, config: Config, running: bool
) -> Iterator[ConfigProblem]:
    """Whether a socket could be made at a path.  Who has it open may go away."""
    stops = kind == socket.SOCK_STREAM
    if why := _blocked(path, Path(config.agent.run_dir)):
        yield ConfigProblem(key, "a path for a socket", why, stops=stops)
    elif not running and _is_open(path, kind):
        yield ConfigProblem(key, "a path for a socket", f"{path}: another program listens there")


def _blocked(path: Path, run_dir: Path) -> str:
    if path.parent != run_dir and (why := _unwritable(path.parent)):
        return why
    try:
        mode = path.lstat().st_mode
    except OSError:  # nothing, or not even the run directory
        return ""
    return "" if stat.S_ISSOCK(mode) else f"{path}: something else is there, not a socket"


def _is_open(path: Path, kind: int) -> bool:
    with socket.socket(socket.AF_UNIX, kind) as trial:
        trial.settimeout(1.0)
        try:
            trial.connect(str(path))
        except OSError as error:
            return error.errno not in {errno.ECONNREFUSED, errno.ENOENT, errno.ENOTDIR}
    return True


def _unmakable(path: Path) -> str:
    """Why a directory could not be made; empty if it could, or is there."""
    try:
        while not path.exists():
            path = path.parent
    except OSError as error:
        return f"{path}: {error.strerror}"
    return _unwritable(path)


def _unwritable(path: Path) -> str:
    """Why nothing could be made in a directory; empty if it could."""
    try:
        if not path.is_dir():
            return f"{path}: no directory"
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            return f"{path}: a read-only file system"
    except OSError as error:
        return f"{path}: {error.strerror}"
    return "" if os.access(path, os.W_OK | os.X_OK) else f"{path}: may not be written to"


def _elsewhere(at: Address) -> bool:
    return not at.is_loopback and at.host != "localhost"
