"""How the daemon runs."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from hostcc.config.sections.words import AbsolutePath
from hostcc.limits import MAX_JOBS
from hostcc.quota import FOR_ROOT, PER_UID


class AgentConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[agent]`: how the daemon runs."""

    instance: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z0-9._-]{1,32}\Z",
            description="1 to 32 characters of A-Z a-z 0-9 . _ -",
        ),
    ] = "host"
    """Tells agents on one machine apart (lab hosts); part of the kernel names."""
    run_dir: AbsolutePath = "/run/hostcc"
    """Journal, lock and control socket live here."""
    socket: Annotated[
        str, Meta(pattern=r"^(/[^\x00]{0,106})?\Z", description="an absolute path")
    ] = ""
    """Control socket; empty: `control.sock` in run_dir.  At most 107 bytes (sockaddr_un)."""
    socket_group: Annotated[
        str, Meta(pattern=r"^[A-Za-z0-9._-]{0,32}\Z", description="a group's name or nothing")
    ] = "hostcc"
    """Members may read (status, flows ...); changing always needs root.  Empty: root only."""
    cgroup_root: Annotated[
        str,
        Meta(pattern=r"^(auto|/[^\x00]{0,4000})\Z", description='"auto" or an absolute path'),
    ] = "auto"
    """cgroup v2 directory; jobs get `<cgroup_root>/hostcc/<name>`.  auto: the cgroup2 mount."""
    heartbeat_s: Annotated[float, Meta(ge=0.1, le=60)] = 0.5
    """Seconds between signs of life to the BPF programs."""
    heartbeat_stale_s: Annotated[float, Meta(ge=0.2, le=300)] = 1.5
    """Without a sign of life for so many seconds, sockets act as the plain algorithm."""
    on_exit: Literal["restore", "keep"] = "restore"
    """restore: undo every change on SIGTERM.  keep: leave processes in their jobs' cgroups."""
    observe_only: bool = False
    """Change nothing on this host, answer questions only."""
    network_namespaces: Literal["all", "own"] = "all"
    """Where to look for sockets that exist already."""
    per_uid: Annotated[int, Meta(ge=1, le=MAX_JOBS - 1)] = PER_UID
    """Jobs that nobody started with `hostcc run`, and processes that send marks, of one user; and
    processes of one user's jobs that are registered at one look."""
    for_root: Annotated[int, Meta(ge=0, le=MAX_JOBS - 2)] = FOR_ROOT
    """Of job slots and of senders of marks so many are left for what root asks for."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"
    metrics_listen: Annotated[
        str,
        Meta(
            pattern=r"^((\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]{1,253}):[0-9]{1,5})?\Z",
            description='"ADDRESS:PORT" or nothing',
        ),
    ] = ""
    """Prometheus metrics are served here; empty: not at all."""
