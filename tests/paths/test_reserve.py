"""Reserved ports and who has which socket, in a namespace of their own."""

from __future__ import annotations

import socket
import subprocess

import pytest

from hostcc.cli.kernel_probes import in_new_netns
from hostcc.paths import reserve, sockdiag

pytestmark = pytest.mark.kernel


def test_reserving_and_undoing() -> None:
    def scene() -> tuple[str, str, str]:
        before, after = reserve.planned(61000, 61010)
        reserve.write(after)
        during = reserve.read()
        reserve.write(before)
        return before, during, reserve.read()

    assert in_new_netns(scene) == ("", "61000-61010", "")


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_sockets_by_their_ends(address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET

    def scene() -> list[object]:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        with socket.socket(family) as listener, socket.socket(family) as client:
            listener.bind((address, 61005))
            listener.listen()
            client.bind((address, 61007))
            client.connect((address, 61005))
            server, _ = listener.accept()
            with server:
                return [
                    sockdiag.exists(address, 61005, address, 61007),
                    sockdiag.exists(address, 61007, address, 61005),
                    sockdiag.exists(address, 61005, address, 61008),  # only the listener
                    sockdiag.exists(address, 61009, address, 61005),
                    reserve.in_use(61000, 61010),
                ]

    assert in_new_netns(scene) == [True, True, False, False, {61005, 61007}]
