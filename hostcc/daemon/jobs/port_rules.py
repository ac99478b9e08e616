"""Port rules in the kernel, which make sockets on configured ports part of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hostcc.daemon.changes import kinds
from hostcc.daemon.changes.journal import Journal
from hostcc.mltcp.backend import MltcpBackend

Rules = Mapping[tuple[int, bool], str]
"""(port, is_remote) -> job."""


class PortRules:
    """The rules in force.  Methods raise BpfError, OSError, HostccError."""

    def __init__(self, backend: MltcpBackend, journal: Journal, root: Path) -> None:
        self._backend = backend
        self._journal = journal
        self._root = root
        self._rules: Rules = {}
        self._rooted = False

    def apply(self, rules: Rules, slots: Mapping[str, int]) -> None:
        """Put exactly these rules in force; `slots`: job -> slot."""
        if rules == self._rules:
            return
        if not rules:
            self._backend.set_port_rules({})
            self._journal.undone([kinds.RULES], "no rule is left")
        else:
            self._journal.begin(kinds.port_rules(rules, self._root))
            if not self._rooted:
                self._backend.attach_root(self._root)
                self._rooted = True
            self._backend.set_port_rules({key: slots[name] for key, name in rules.items()})
        self._rules = rules

    def drop(self) -> None:
        """Remove all rules; the caller tells the journal."""
        self._backend.set_port_rules({})
        self._rules = {}
