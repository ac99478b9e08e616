"""Attachments hold while their process lives, and no longer."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hostcc.bpf.loader.errors import BpfError
from hostcc.bpf.loader.features import struct_ops_links
from hostcc.bpf.loader.links import LINK_CGROUP, LINK_STRUCT_OPS, BpfLink
from hostcc.bpf.loader.object import BpfObject
from tests.bpf.conftest import fresh_names
from tests.bpf.congestion import eventually_gone, registered
from tests.bpf.detaching import detach_links
from tests.bpf.traffic import connect_in
from tests.conftest import NOT_HERE
from tests.patience import Patience

pytestmark = pytest.mark.kernel
needs_links = pytest.mark.skipif(
    not struct_ops_links(), reason=f"{NOT_HERE} struct_ops links (Linux 6.4)"
)
GIVE_UP_S = 120

HOLDER = """
import sys, time
from hostcc.bpf.loader.object import BpfObject
obj = BpfObject.open(sys.argv[1], {"first": sys.argv[2], "second": sys.argv[2] + "x"})
obj.load()
link = obj.attach_struct_ops("first")
print("attached", flush=True)
time.sleep(600)
"""


def still(link: BpfLink) -> bool:
    """`alive`, asked anew each time as far as a type checker knows."""
    return link.alive


def test_struct_ops_is_usable_under_its_new_name(loaded: BpfObject) -> None:
    name = loaded.struct_ops()["first"]
    link = loaded.attach_struct_ops("first")
    assert link.info().type == LINK_STRUCT_OPS
    assert link.info().map_id != 0
    assert still(link)
    with socket.socket() as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        used = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    assert used.rstrip(b"\0").decode() == name
    assert not registered("hcct_first")
    link.close()
    link.close()
    assert not still(link)
    assert eventually_gone(name)


@needs_links
def test_struct_ops_can_be_attached_again(loaded: BpfObject) -> None:
    name = loaded.struct_ops()["first"]
    for _ in range(2):
        link = loaded.attach_struct_ops("first")
        assert registered(name)
        link.close()
        assert eventually_gone(name)


@needs_links
def test_same_kernel_name_twice_is_refused(loaded: BpfObject, sample_path: Path) -> None:
    names = loaded.struct_ops()
    with loaded.attach_struct_ops("first"), BpfObject.open(sample_path, names) as other:
        other.load()
        with pytest.raises(BpfError, match=f"struct_ops {names['first']}.*File exists"):
            other.attach_struct_ops("first")


def test_link_outlives_its_object(sample_path: Path) -> None:
    obj = BpfObject.open(sample_path, fresh_names())
    obj.load()
    name = obj.struct_ops()["first"]
    link = obj.attach_struct_ops("first")
    obj.close()
    assert registered(name)
    link.close()
    assert eventually_gone(name)


@needs_links
def test_kill_9_unregisters(sample_path: Path) -> None:
    name = fresh_names()["first"]
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(sample_path), name], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "attached\n"
        assert registered(name)
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    assert eventually_gone(name)


def test_cgroup_link(loaded: BpfObject, cgroup: Path) -> None:
    fd = os.open(cgroup, os.O_RDONLY)
    link = loaded.attach_cgroup("on_socket", fd)
    os.close(fd)
    info = link.info()
    assert (info.type, info.cgroup_id) == (LINK_CGROUP, cgroup.stat().st_ino)
    storage = loaded.map("table_cgroup")
    key = (cgroup.stat().st_ino, info.attach_type)
    storage.update(key, 1000)
    connect_in(cgroup, times=3)
    assert storage.lookup(key) == 1003
    keys, values = storage.lookup_batch()
    assert keys.tolist() == [key]
    assert values.tolist() == [1003]
    link.close()
    connect_in(cgroup)
    assert storage.lookup(key) in {None, 1003}


def test_two_links_on_one_cgroup(loaded: BpfObject, cgroup: Path, sample_path: Path) -> None:
    fd = os.open(cgroup, os.O_RDONLY)
    with BpfObject.open(sample_path, fresh_names()) as other:
        other.load()
        with loaded.attach_cgroup("on_socket", fd), other.attach_cgroup("on_socket", fd):
            connect_in(cgroup)
        for each in (loaded, other):
            assert each.map("table_seen").lookup(0)["last"] == 4
    os.close(fd)


def test_link_notices_that_its_cgroup_is_gone(loaded: BpfObject, cgroup2: Path) -> None:
    path = cgroup2 / f"hostcc-test-gone-{os.getpid()}"
    path.mkdir()
    fd = os.open(path, os.O_RDONLY)
    link = loaded.attach_cgroup("on_socket", fd)
    os.close(fd)
    assert still(link)
    path.rmdir()
    patience = Patience(GIVE_UP_S)
    while still(link) and patience.lasts():
        time.sleep(0.02)
    assert not still(link)
    assert not link.detached_from(path)
    path.mkdir()  # another cgroup of that name
    assert not link.detached_from(path)
    path.rmdir()
    link.close()


def test_link_notices_that_somebody_detached_it(loaded: BpfObject, cgroup: Path) -> None:
    fd = os.open(cgroup, os.O_RDONLY)
    link = loaded.attach_cgroup("on_socket", fd)
    os.close(fd)
    assert not link.detached_from(cgroup)
    assert detach_links(cgroup.stat().st_ino) == 1
    assert link.detached_from(cgroup)
    link.close()


def test_not_a_cgroup(loaded: BpfObject, tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(BpfError, match="cannot attach on_socket to a cgroup"):
        loaded.attach_cgroup("on_socket", fd)
    os.close(fd)
