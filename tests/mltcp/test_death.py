"""kill -9 of whoever holds the programs: connections live on, new ones are the host's."""

from __future__ import annotations

import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostcc.bpf.loader.features import struct_ops_links
from hostcc.lab.scenario import FabricSpec
from hostcc.mltcp.kernel_names import kernel_names
from hostcc.mltcp.params import Variant
from tests.bpf.congestion import eventually_gone, registered
from tests.conftest import NOT_HERE
from tests.mltcp.stage import Stage, delivered

pytestmark = [
    pytest.mark.kernel,
    # Without a link, what a killed agent registered stays until the next one starts.
    pytest.mark.skipif(not struct_ops_links(), reason=f"{NOT_HERE} struct_ops links (Linux 6.4)"),
]

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage(FabricSpec(rate_mbit=100, buffer_packets=30)) as made:
        yield made


def test_killed_in_mid_transfer(stage: Stage) -> None:
    tag = secrets.token_hex(2)
    names = kernel_names(tag, Variant)
    holder = subprocess.Popen(
        [sys.executable, "-m", "tests.mltcp.holder", tag, "0.2", str(stage.group(0))],
        cwd=REPOSITORY, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"up\n"
        sender, receiver = stage.pair()
        stage.dial(sender, receiver, flows=8)
        assert sender.ask("controls") == [names[Variant.HOSTCC]] * 8
        server, client = stage.pair()
        address = stage.host(0).address
        port = server.ask("listen", address=address)
        sender.start("send", sizes=[1_000_000] * 8, gaps_ms=[30] * 8)
        holder.send_signal(signal.SIGKILL)
        assert holder.wait() == -signal.SIGKILL
    finally:
        holder.kill()
        holder.communicate()
    # Those who use it keep it, and nobody else can get it any more.
    for name in names.values():
        assert eventually_gone(name)
    late, sink = stage.pair()
    stage.dial(late, sink, flows=4)
    assert late.ask("controls") == ["cubic"] * 4
    # Also what a listener accepts that is older than the death.
    client.ask("connect", address=address, port=port, flows=3)
    assert server.ask("accepted_controls", count=3) == ["cubic"] * 3
    sender.answer()
    assert sender.ask("controls") == [names[Variant.HOSTCC]] * 8
    late.ask("send", sizes=[500_000], gaps_ms=[0])
    assert delivered(late, sink) == 500_000
    sender.ask("send", sizes=[1_000_000], gaps_ms=[0])
    assert delivered(sender, receiver) == 9_000_000
    assert not any(registered(name) for name in names.values())
