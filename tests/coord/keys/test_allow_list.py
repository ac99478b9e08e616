"""The allow-list: what the directory says, whatever else lies in it."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from hostcc.coord.keys import allow_list, files, identity
from hostcc.coord.keys.allow_list import AllowDirectory
from hostcc.coord.keys.identity import HostKeys, Member
from tests.refusals import refusal_of

pytestmark = pytest.mark.unit

NOW = 1_800_000_000.0
HOSTS = {name: HostKeys(name, (identity.generate(NOW),)) for name in ("a", "b", "c")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for host in HOSTS.values():
        files.allow(tmp_path, host.member)
    return tmp_path / "allowed"


class Clock:
    """Every look is late enough to look at each file."""

    def __init__(self, directory: AllowDirectory) -> None:
        self.directory = directory
        self.now = 0.0

    def tick(self) -> bool:
        self.now += allow_list.FILE_CHECK_INTERVAL_S
        return self.directory.tick(self.now)


def test_members_by_key(folder: Path) -> None:
    listed = AllowDirectory(folder).load()
    assert sorted(listed.members) == ["a", "b", "c"]
    curve = HOSTS["b"].keys[0].public.curve
    assert listed.member_of(curve, NOW) == "b"
    assert listed.member_of("0" * 64, NOW) is None
    signature = HOSTS["b"].keys[0].sign(b"x")
    assert listed.verifies("b", b"x", signature, NOW)
    assert not listed.verifies("a", b"x", signature, NOW)
    assert not listed.verifies("stranger", b"x", signature, NOW)


def test_changes_are_seen_and_only_they(folder: Path) -> None:
    directory = AllowDirectory(folder)
    directory.load()
    clock = Clock(directory)
    assert not clock.tick()
    files.revoke(folder.parent, "b")
    assert clock.tick()
    assert sorted(directory.list.members) == ["a", "c"]
    new = HostKeys("d", (identity.generate(NOW),))
    files.allow(folder.parent, new.member)
    (folder / "notes.txt").write_text("not a key")
    assert clock.tick()
    assert directory.list.member_of(new.keys[0].public.curve, NOW) == "d"
    assert not clock.tick()


def test_an_edit_in_place_is_seen(folder: Path) -> None:
    directory = AllowDirectory(folder)
    directory.load()
    changed = Member("a", (identity.generate(NOW).public,))
    (folder / "a.pub").write_text(identity.public_text(changed))
    assert not directory.tick(0.0) or directory.list.members["a"] == changed
    assert directory.list.members["a"] == changed or directory.tick(
        allow_list.FILE_CHECK_INTERVAL_S + 1
    )
    assert directory.list.members["a"] == changed


def test_a_key_that_has_ended_has_no_rights(folder: Path) -> None:
    host = identity.rotated(HOSTS["a"], NOW, 100.0)
    files.allow(folder.parent, host.member)
    listed = AllowDirectory(folder).load()
    old, new = (key.public for key in host.keys)
    assert [listed.member_of(key.curve, NOW + 99) for key in (old, new)] == ["a", "a"]
    assert [listed.member_of(key.curve, NOW + 100) for key in (old, new)] == [None, "a"]
    assert listed.keys_of("a", NOW + 60) == (new, old)
    assert listed.keys_of("a", NOW + 100) == (new,)
    assert not listed.verifies("a", b"x", host.keys[0].sign(b"x"), NOW + 100)
    assert listed.verifies("a", b"x", host.keys[1].sign(b"x"), NOW)


def test_bad_files_are_skipped_and_take_nobody_off(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = AllowDirectory(folder)
    directory.load()
    before = dict(directory.list.members)
    (folder / "a.pub").write_text("name = ")
    (folder / "b.pub").chmod(0o666)
    (folder / "torn.pub").write_bytes(b"\xff\x00")
    (folder / "dir.pub").mkdir()
    os.mkfifo(folder / "pipe.pub")
    (folder / "other.pub").write_text(
        identity.public_text(Member("x", (identity.generate(NOW).public,)))
    )
    caplog.set_level(logging.WARNING, logger="hostcc")
    clock = Clock(directory)
    clock.tick()
    assert directory.list.members == before
    assert sorted(directory.list.skipped) == [
        "a.pub",
        "b.pub",
        "dir.pub",
        "other.pub",
        "pipe.pub",
        "torn.pub",
    ]
    said = [r for r in caplog.records if r.message == "allow-list: file skipped"]
    assert len(said) == 6
    (folder / "c.pub").unlink()
    clock.tick()
    assert sorted(directory.list.members) == ["a", "b"]
    assert len([r for r in caplog.records if r.message == "allow-list: file skipped"]) == 6


def test_a_key_belongs_to_one_member(folder: Path) -> None:
    thief = Member("z", HOSTS["a"].member.keys)
    files.allow(folder.parent, thief)
    listed = AllowDirectory(folder).load()
    assert "z" not in listed.members
    assert "no other member has" in listed.skipped["z.pub"]
    assert listed.member_of(HOSTS["a"].keys[0].public.curve, NOW) == "a"


def test_a_directory_that_others_can_write_to_changes_nothing(folder: Path) -> None:
    directory = AllowDirectory(folder)
    directory.load()
    files.revoke(folder.parent, "b")
    folder.chmod(0o777)
    clock = Clock(directory)
    assert not clock.tick()
    assert sorted(directory.list.members) == ["a", "b", "c"]
    folder.rename(folder.with_name("gone"))
    assert not clock.tick()
    assert sorted(directory.list.members) == ["a", "b", "c"]
    folder.with_name("gone").rename(folder)
    folder.chmod(0o755)
    assert clock.tick()
    assert sorted(directory.list.members) == ["a", "c"]


def test_a_missing_directory_is_refused_at_the_start(tmp_path: Path) -> None:
    refused = refusal_of(AllowDirectory(tmp_path / "none").load)
    assert refused == f"{tmp_path}/none: expected a directory, got: No such file or directory"
