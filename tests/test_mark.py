"""Marks at the job's end: cheap, silent, and harmless whatever is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hostcc import mark

pytestmark = pytest.mark.unit

TOP = Path(__file__).parent.parent


def python(script: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(TOP), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_without_an_agent() -> None:
    script = "import hostcc.mark as m\nfor _ in range(1000): m.iteration()\nprint(m._count)"
    assert python(script, HOSTCC_MARK_SOCKET="/nowhere/marks.sock") == "1000\n"


def test_what_the_memory_holds() -> None:
    script = (
        "import time, hostcc.mark as m\nbefore = time.monotonic_ns()\n"
        "for _ in range(m.SLOTS + 5): m.iteration()\n"
        "v = m._view.tolist()\n"
        "print(v[0] == m.MAGIC, v[1] == m.SLOTS + 5, all(t >= before for t in v[2:]),"
        " v[2 + 4] > v[2 + 5], m.explicit)"
    )
    assert python(script, HOSTCC_MARK_SOCKET="@nobody") == "True True True True True\n"


def test_a_child_has_memory_of_its_own() -> None:
    script = (
        "import os, hostcc.mark as m\nm.iteration(); m.iteration()\nfd = m._fd\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    fresh = m._count == 0 and m._view is None\n"
        "    m.iteration()\n"
        "    os._exit(0 if fresh and m._view[1] == 1 else 1)\n"
        "print(os.waitpid(pid, 0)[1], m._view[1], m._fd == fd)"
    )
    assert python(script, HOSTCC_MARK_SOCKET="@nobody") == "0 2 True\n"


def test_where_there_is_no_such_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    for name, value in (("_view", None), ("_hello_at", 0), ("_count", 0), ("explicit", False)):
        monkeypatch.setattr(mark, name, value)
    files = len(list(Path("/proc/self/fd").iterdir()))
    mark.iteration()
    mark.iteration()
    assert mark._view is None
    assert mark._count == 0
    assert len(list(Path("/proc/self/fd").iterdir())) == files


def test_it_needs_only_pythons_library() -> None:
    script = (
        "import sys\nbefore = set(sys.modules)\nimport hostcc.mark\n"
        "print(sorted(m.partition('.')[0] for m in set(sys.modules) - before"
        " if m.partition('.')[0] not in sys.stdlib_module_names))"
    )
    assert python(script) == "['hostcc', 'hostcc']\n"
