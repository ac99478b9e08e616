"""Which queues a device gets, and which device gets none."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hostcc.config.schema import Config
from hostcc.config.sections.egress import EgressConfig
from hostcc.config.sections.marking import MarkingConfig
from hostcc.daemon.marking.queues import LevelQueues, planned
from hostcc.errors import HostccError
from hostcc.paths import egress_kernel
from hostcc.paths.egress_kernel import Root
from tests.daemon.declared import check_declared
from tests.daemon.profiling.hosts import OWN, ToyHost

pytestmark = pytest.mark.unit

MARKING = MarkingConfig(enabled=True)


def config(**egress: object) -> Config:
    return Config(agent=OWN, marking=MARKING, egress=EgressConfig(**egress))  # type: ignore[arg-type]


def acting(tmp_path: Path, **egress: object) -> tuple[ToyHost, LevelQueues]:
    host = ToyHost(tmp_path, config(**egress))
    part = LevelQueues(host)
    host.act()
    part.start()
    return host, part


def test_a_class_for_every_level_that_jobs_may_have() -> None:
    change, lines = planned(config(queues="prio"), "eth0", Root("noqueue", "0:"))
    assert (change.id, change.after) == ("egress-queues:eth0", {"qdisc": "prio", "levels": 5})
    assert "prio bands 6" in lines[0]
    assert [line.split()[-1] for line in lines[1::2]] == [f"c1c:{number}" for number in range(1, 6)]


def test_htb_needs_a_rate() -> None:
    nowhere = "hcc-none"
    with pytest.raises(HostccError, match=r"set egress\.rate_mbit"):
        planned(config(queues="htb"), nowhere, Root("noqueue", "0:"))
    _, lines = planned(config(queues="htb", rate_mbit=100.0), nowhere, Root("mq", "0:"))
    assert any("rate 100mbit" in line for line in lines)


@pytest.mark.parametrize("there", [Root("fq", "8001:"), Root("htb", "1:"), Root("tbf", "0:")])
def test_what_somebody_chose_stays(there: Root) -> None:
    with pytest.raises(HostccError, match=f"{there.kind} {there.handle}, which somebody chose"):
        planned(config(queues="prio"), "eth0", there)


def test_what_an_earlier_agent_left_is_made_anew_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, plain = Root("prio", "c1c:"), Root("noqueue", "0:")
    there, done = [ours], []

    def remove(device: str) -> str:
        done.append("removed")
        there[0] = plain
        return ""

    def apply(lines: list[str]) -> None:
        done.append("made")
        there[0] = ours

    monkeypatch.setattr(egress_kernel, "root", lambda device: there[0])
    monkeypatch.setattr(egress_kernel, "remove", remove)
    monkeypatch.setattr(egress_kernel, "apply", apply)
    host, part = acting(tmp_path, queues="prio", devices=("eth0",))
    for _ in range(3):
        asyncio.run(part.tick())
    assert done == ["removed", "made"]
    host.config = config(queues="htb", devices=("eth0",), rate_mbit=100.0)
    for _ in range(3):
        asyncio.run(part.tick())
    assert done == 2 * ["removed", "made"]
    asyncio.run(part.stop())
    assert done[4:] == ["removed"]


def test_a_device_that_comes_late_or_comes_back_gets_its_queues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there: list[Root | None] = [None]

    def apply(lines: list[str]) -> None:
        there[0] = Root("prio", "c1c:")

    monkeypatch.setattr(egress_kernel, "root", lambda device: there[0])
    monkeypatch.setattr(egress_kernel, "apply", apply)
    host, part = acting(tmp_path, queues="prio", devices=("bond0",))

    def turns() -> tuple[list[str], dict[str, str]]:
        for _ in range(3):
            asyncio.run(part.tick())
        view = part.view()
        return view.devices, view.left_alone

    missing: tuple[list[str], dict[str, str]] = [], {"bond0": "there is no such device"}
    assert turns() == missing
    assert len(host.journal.notes) == 1
    there[0] = Root("noqueue", "0:")
    assert turns() == (["bond0"], {})
    there[0] = None  # its driver is loaded again
    assert turns() == missing
    there[0] = Root("mq", "0:")
    assert turns() == (["bond0"], {})
    there[0] = Root("fq", "8001:")  # an administrator's
    devices, left_alone = turns()
    assert (devices, list(left_alone)) == ([], ["bond0"])
    there[0] = Root("noqueue", "0:")  # who has undone it for good
    assert turns() == (devices, left_alone)


def test_a_device_gets_htb_once_its_link_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, speed, made = [Root("mq", "0:")], [0.0], []

    def apply(lines: list[str]) -> None:
        made.append(lines)
        there[0] = Root("htb", "c1c:")

    monkeypatch.setattr(egress_kernel, "root", lambda device: there[0])
    monkeypatch.setattr(egress_kernel, "speed_mbit", lambda device: speed[0])
    monkeypatch.setattr(egress_kernel, "apply", apply)
    _, part = acting(tmp_path, queues="htb", devices=("eth0",))
    asyncio.run(part.tick())
    assert list(part.view().left_alone) == ["eth0"]
    speed[0] = 1e5
    for _ in range(2):
        asyncio.run(part.tick())
    assert (part.view().devices, part.view().left_alone, len(made)) == (["eth0"], {}, 1)


@pytest.mark.parametrize("refusals", [0, 1])
def test_queues_that_are_half_made_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusals: int
) -> None:
    there, tries = [Root("noqueue", "0:")], []

    def remove(device: str) -> str:
        tries.append(device)
        if len(tries) <= refusals:
            return "tc: Device or resource busy"
        there[0] = Root("noqueue", "0:")
        return ""

    def apply(lines: list[str]) -> None:
        there[0] = Root("prio", "c1c:")  # as the first line says; the kernel has no u32 filters
        raise HostccError("tc: Error: Failed to load TC action module.")

    monkeypatch.setattr(egress_kernel, "root", lambda device: there[0])
    monkeypatch.setattr(egress_kernel, "remove", remove)
    monkeypatch.setattr(egress_kernel, "apply", apply)
    host, part = acting(tmp_path, queues="prio", devices=("eth0",))
    for _ in range(2):
        asyncio.run(part.tick())
    assert part.view().left_alone == {"eth0": "tc: Error: Failed to load TC action module."}
    left = ["egress-queues:eth0"] if refusals else []
    assert [one for one in host.journal.active if "queues" in one] == left
    asyncio.run(part.stop())
    assert there == [Root("noqueue", "0:")]
    assert not any("queues" in one for one in host.journal.active)


def test_a_device_that_cannot_be_had_is_told(tmp_path: Path) -> None:
    host = ToyHost(tmp_path, config(queues="prio", devices=("hcc-none",)))
    part = LevelQueues(host)
    assert part.disabled_reason() == "nothing is changed on this host"
    host.act()
    assert part.disabled_reason() == ""
    part.start()
    asyncio.run(part.tick())
    view = part.view()
    assert view.left_alone == {"hcc-none": "there is no such device"}
    assert view.reason == "hcc-none: there is no such device"
    check_declared(part)
    assert asyncio.run(part.verify()) == []
    asyncio.run(part.stop())
    host.config = config()
    assert part.disabled_reason() == "egress.queues is off"
