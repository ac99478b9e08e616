"""Undoing of steering's hooks and reserved ports, by their records in the journal."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from hostcc.bpf.loader.errors import BpfError
from hostcc.daemon.changes import path_kinds, places
from hostcc.errors import HostccError
from hostcc.model import Change
from hostcc.paths import choose, reserve, steer_kernel


def network_namespace() -> int:
    """Inode number of the calling thread's network namespace."""
    return places.NETNS.stat().st_ino


def undo(change: Change) -> str:
    """Undo a change of hooks or reserved ports; why not, empty when it is undone."""
    after = change.after if isinstance(change.after, Mapping) else {}
    if after.get("netns") != network_namespace():
        return f"it is in network namespace {after.get('netns')}: run hostcc rollback there"
    try:
        if change.what == path_kinds.HOOKS:
            if change.target in {name for _, name in socket.if_nameindex()}:
                steer_kernel.remove_all([change.target])
            return ""
        return _ports(str(change.before or ""), str(after.get("ports", "")))
    except (BpfError, HostccError, OSError) as error:
        return str(error)


def _ports(before: str, after: str) -> str:
    now = reserve.read()
    left = before if now in (before, after) else choose.given_back(now, before, after)
    if left != now:
        reserve.write(left)
    return ""
