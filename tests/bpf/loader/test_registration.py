"""struct_ops without links: as before Linux 6.4, which newer kernels still allow."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hostcc.bpf.loader import features, registration
from hostcc.bpf.loader.errors import BpfError
from hostcc.bpf.loader.object import BpfObject
from tests.bpf.conftest import fresh_names
from tests.bpf.congestion import eventually_gone, registered

pytestmark = pytest.mark.kernel

KILLED = """
import os, sys
from hostcc.bpf.loader import features
features.struct_ops_links = lambda: False
from hostcc.bpf.loader.object import BpfObject
obj = BpfObject.open(sys.argv[1], {"first": sys.argv[2], "second": sys.argv[3]})
obj.load()
link = obj.attach_struct_ops("first")
os.kill(os.getpid(), 9)
"""


@pytest.fixture(autouse=True)
def no_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "struct_ops_links", lambda: False)


def test_registered_until_closed(sample_path: Path) -> None:
    with BpfObject.open(sample_path, fresh_names()) as obj:
        obj.load()
        name = obj.struct_ops()["first"]
        link = obj.attach_struct_ops("first")
    assert registered(name)  # it does not need the object
    assert link.info().map_id != 0
    assert link.alive
    link.close()
    link.close()
    assert eventually_gone(name)
    with pytest.raises(BpfError):
        link.info()


def test_what_a_killed_process_left_is_replaced(sample_path: Path) -> None:
    names = fresh_names()
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(sample_path), names["first"], names["second"]],
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert registered(names["first"])
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count of names
    with BpfObject.open(sample_path, names) as obj:
        obj.load()
        link = obj.attach_struct_ops("first")
        assert registered(names["first"])
        link.close()
    assert eventually_gone(names["first"])
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_nothing_to_forget() -> None:
    assert not registration.forget("no_such_name")
