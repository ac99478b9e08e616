"""A comparison that is killed: sockets follow the mode that it borrowed, and go back without it."""

from __future__ import annotations

import pytest

from hostcc.client import ask
from tests.real import RealHost, Talker, until

pytestmark = pytest.mark.kernel

QUIET = "[discover]\nenabled = false\n[gpu]\nenabled = false\n"


def managed(talker: Talker) -> bool:
    return all(name.startswith("hcc_") for name in talker.controls())


def test_sockets_follow_a_loan_and_go_back(host: RealHost) -> None:
    agent = host.start(QUIET)
    talker = host.talker("train", 7101)
    until(lambda: managed(talker), host.log)
    lent = ask(host.socket, "borrow", 30.0, mode="off")
    assert (lent["mode"], lent["hosts_told"]) == ("off", 0)
    assert not managed(talker)
    # Nobody asks again, as after a kill -9.
    until(lambda: managed(talker), host.log)
    assert host.json("status")["agent"]["mode"] == "mltcp"
    assert host.stop(agent) == 0, host.log()
