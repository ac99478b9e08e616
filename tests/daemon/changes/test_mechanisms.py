"""The table by which every kind of change is undone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hostcc.daemon import rollback
from hostcc.daemon.changes import kinds, mechanisms
from hostcc.daemon.changes.journal import Journal
from hostcc.daemon.changes.mechanisms import MECHANISMS, STEERING, undo_all
from hostcc.daemon.changes.path_kinds import hooks, reserved_ports
from hostcc.daemon.changes.steering_undo import network_namespace
from hostcc.paths import egress_kernel, egress_queues, reserve, steer_kernel
from hostcc.paths.egress_kernel import Root
from hostcc.verbs.plan_region import MAGIC

pytestmark = pytest.mark.unit


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    book = Journal(tmp_path)
    book.open()
    yield book
    book.close()


def test_a_kind_is_in_one_step_of_a_rollback() -> None:
    steps = [kind for those in rollback.LASTING.values() for kind in those]
    assert sorted(steps) == sorted(MECHANISMS)


def test_hooks_go_before_the_ports_that_they_use(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = list[str]()
    monkeypatch.setattr(steer_kernel, "remove_all", done.extend)
    monkeypatch.setattr(reserve, "read", lambda: "61000-65535")
    monkeypatch.setattr(reserve, "write", lambda text: done.append(f"ports {text}"))
    netns = network_namespace()
    journal.begin(reserved_ports("8080", "61000-65535", netns), hooks("lo", netns))
    assert undo_all(journal, STEERING, "test") == []
    assert done == ["lo", "ports 8080"]
    assert journal.active == {}


def test_what_cannot_be_undone_stays_in_the_journal(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove(device: str) -> str:
        return "busy" if device == "eth0" else ""

    monkeypatch.setattr(egress_kernel, "remove", remove)
    journal.begin(egress_queues.found("eth0"), egress_queues.found("eth1"))
    assert undo_all(journal, (egress_queues.QUEUES,), "test") == ["eth0: queues stay: busy"]
    assert list(journal.active) == ["egress-queues:eth0"]


def test_queues_of_an_old_journal_are_undone_only_where_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    roots = {"eth0": Root("htb", "c1c:"), "eth1": Root("mq", "0:")}
    monkeypatch.setattr(egress_kernel, "root", roots.get)
    monkeypatch.setattr(egress_kernel, "remove", lambda _: "")
    assert mechanisms.remove_queues(egress_queues.found("eth0")) == ""
    assert mechanisms.remove_queues(egress_queues.found("eth1")) == "nothing says where they are"


def test_shared_memory_of_others_is_left_alone(journal: Journal, tmp_path: Path) -> None:
    ours, others = tmp_path / "plan", tmp_path / "turns"
    ours.write_bytes(MAGIC.to_bytes(8, "little"))
    others.write_text("somebody's notes")
    journal.begin(kinds.rdma_plan(ours), kinds.semaphores(others))
    assert undo_all(journal, mechanisms.SHARED_MEMORY, "test") == []
    assert (ours.exists(), others.exists()) == (False, True)
    assert journal.active == {}
