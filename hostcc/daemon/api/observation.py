"""Connections by port rule, read from /proc: what an agent without BPF can still show."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from hostcc.answers.flows import FlowRow, Flows
from hostcc.config.schema import Config, port_rules
from hostcc.daemon.jobs.views import TCP_STATES, endpoint
from hostcc.system.namespaces import all_pids


def flows(config: Config, only: str | None, limit: int) -> Flows:
    """Connections whose ports a rule names, in the form of `hostcc flows`."""
    rules, everywhere = port_rules(config), config.agent.network_namespaces == "all"
    rows = [
        row
        for folder in (_folders() if everywhere and rules else [Path("/proc/self/net")])
        for row in connections(folder, rules)
        if only in (None, row.job)
    ]
    return Flows(total=len(rows), flows=rows[:limit])


def connections(folder: Path, rules: Mapping[tuple[int, bool], str]) -> Iterator[FlowRow]:
    """The connections of one network namespace that rules name."""
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        try:
            lines = (folder / name).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            local, lport = _address(fields[1])
            remote, rport = _address(fields[2])
            job = rules.get((lport, False)) or rules.get((rport, True))
            state = int(fields[3], 16)
            if job and state != TCP_STATES.index("listen"):
                yield FlowRow(
                    job=job,
                    local=endpoint(family, local, lport),
                    remote=endpoint(family, remote, rport),
                    state=TCP_STATES[state] if state < len(TCP_STATES) else str(state),
                )


def _address(text: str) -> tuple[bytes, int]:
    """ "0100007F:1F90": words in the machine's byte order, port in hexadecimal."""
    words, port = text.split(":")
    numbers = [int(words[at : at + 8], 16) for at in range(0, len(words), 8)]
    return struct.pack(f"={len(numbers)}I", *numbers), int(port, 16)


def _folders() -> Iterator[Path]:
    """/proc/PID/net of one process of each network namespace."""
    seen = set()
    for pid in all_pids():
        try:
            namespace = Path(f"/proc/{pid}/ns/net").stat().st_ino
        except OSError:
            continue
        if namespace not in seen:
            seen.add(namespace)
            yield Path(f"/proc/{pid}/net")
