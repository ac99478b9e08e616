"""One loopback connection, made by a process inside a cgroup."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_CHILD = """
import os, pathlib, socket, sys
pathlib.Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
listener = socket.create_server(("127.0.0.1", 0))
for _ in range(int(sys.argv[2])):
    socket.create_connection(listener.getsockname()).close()
    listener.accept()[0].close()
"""


def connect_in(cgroup: Path, times: int = 1) -> None:
    """Connect `times` times; the process, and so the cgroup's only member, is gone then."""
    subprocess.run([sys.executable, "-c", _CHILD, str(cgroup), str(times)], check=True)
