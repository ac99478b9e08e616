"""What an administrator does with `bpftool link`."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

from hostcc.bpf.loader.libbpf import lib
from hostcc.bpf.loader.links import BpfLink


def links_on(cgroup_id: int) -> Iterator[BpfLink]:
    """Every link to a cgroup, whosever it is."""
    number = ctypes.c_uint32()
    while lib().bpf_link_get_next_id(number, ctypes.byref(number)) == 0:
        fd = lib().bpf_link_get_fd_by_id(number)
        if fd < 0:  # it ended meanwhile
            continue
        with BpfLink(fd, "somebody's link") as link:
            if link.info().cgroup_id == cgroup_id:
                yield link


def detach_links(cgroup_id: int) -> int:
    """Detach every link to a cgroup; returns how many there were."""
    return sum(lib().bpf_link_detach(link.fd) == 0 for link in links_on(cgroup_id))
