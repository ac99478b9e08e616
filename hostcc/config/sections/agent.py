"""How the daemon runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from hostcc.config.sections.words import AbsolutePath
from hostcc.limits import MAX_JOBS
from hostcc.system.quota import FOR_ROOT, PER_UID

SecretFile = Annotated[
    str,
    Meta(pattern=r"^(/[^\x00]{0,4000})?\Z", description="an absolute path or nothing"),
]
USUAL_RUN_DIR, USUAL_STATE_DIR = "/run/hostcc", Path("/var/lib/hostcc")


class AgentConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[agent]`: how the daemon runs."""

    instance: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z0-9._-]{1,32}\Z",
            description="1 to 32 characters of A-Z a-z 0-9 . _ -",
        ),
    ] = "host"
    """Distinguishes agents on one machine (lab hosts); part of the kernel names."""
    run_dir: AbsolutePath = USUAL_RUN_DIR
    """Directory of the journal, the lock and the control socket."""
    socket: Annotated[
        str, Meta(pattern=r"^(/[^\x00]{0,106})?\Z", description="an absolute path")
    ] = ""
    """Control socket; empty: `control.sock` in run_dir.  At most 107 bytes (sockaddr_un)."""
    socket_group: Annotated[
        str, Meta(pattern=r"^[A-Za-z0-9._-]{0,32}\Z", description="a group's name or nothing")
    ] = "hostcc"
    """Members may read (status, flows and so on); changes always need root. Empty: root only."""
    cgroup_root: Annotated[
        str,
        Meta(pattern=r"^(auto|/[^\x00]{0,4000})\Z", description='"auto" or an absolute path'),
    ] = "auto"
    """cgroup v2 directory; jobs get `<cgroup_root>/hostcc/<name>`.  auto: the cgroup2 mount."""
    heartbeat_s: Annotated[float, Meta(ge=0.1, le=60)] = 0.5
    """Seconds between heartbeats to the BPF programs."""
    heartbeat_stale_s: Annotated[float, Meta(ge=0.2, le=300)] = 1.5
    """Seconds without a heartbeat after which sockets act as the plain algorithm."""
    on_exit: Literal["restore", "keep"] = "restore"
    """restore: undo every change on SIGTERM.  keep: leave processes in their jobs' cgroups."""
    observe_only: bool = False
    """Change nothing on this host: only measure and answer queries."""
    network_namespaces: Literal["all", "own"] = "all"
    """Namespaces in which existing sockets are searched."""
    per_uid: Annotated[int, Meta(ge=1, le=MAX_JOBS - 1)] = PER_UID
    """Limits for each user: jobs not started with `hostcc run`, processes that send marks, and
    processes of the user's jobs registered in one pass."""
    for_root: Annotated[int, Meta(ge=0, le=MAX_JOBS - 2)] = FOR_ROOT
    """Job slots, and senders of marks, that are reserved for requests of root."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"
    metrics_listen: Annotated[
        str,
        Meta(
            pattern=r"^((\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]{1,253}):[0-9]{1,5})?\Z",
            description='"ADDRESS:PORT" or nothing',
        ),
    ] = ""
    """Address of the Prometheus metrics; empty: they are not served."""
    metrics_certificate: SecretFile = ""
    """PEM file with the certificate chain and its key; empty: without TLS."""
    metrics_user: SecretFile = ""
    """File with USER:PASSWORD that readers of the metrics have to give; empty: everybody may."""

    @property
    def state_dir(self) -> Path:
        """Directory of what outlasts a boot: a boot empties the usual run_dir, no other one."""
        return USUAL_STATE_DIR if self.run_dir == USUAL_RUN_DIR else Path(self.run_dir)
