"""Whose a file is, and who could put another one in its place."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hostcc.errors import Exit
from hostcc.system.ownership import check_path
from tests.real import HOSTCC, RealHost, until
from tests.refusals import refusal_of

NOBODY = 65534
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "a" / "b" / "file"
    made.parent.mkdir(parents=True)
    made.touch(0o644)
    return made


def test_what_only_we_can_change_is_fine(file: Path, tmp_path: Path) -> None:
    check_path(file)
    check_path(file.parent)
    check_path(file.with_name("not-there"))
    check_path(file / "below-a-file")
    check_path(Path("/dev/null"))
    (tmp_path / "link").symlink_to("a/b")
    check_path(tmp_path / "link" / ".." / "b" / "file")


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_what_others_can_write(file: Path, which: int, mode: int) -> None:
    bad = [file, *file.parents][which]
    bad.chmod(bad.stat().st_mode | mode)
    refused = refusal_of(check_path, file)
    assert f"{bad}: expected mode 0" in refused
    assert f"chmod go-w {bad}" in refused


def test_a_sticky_directory_leads_to_what_is_ours_but_is_not_ours_itself(file: Path) -> None:
    file.parent.chmod(0o1777)
    check_path(file)
    assert "got 1777" in refusal_of(check_path, file.parent)


def test_links_are_followed_and_each_of_their_places_is_looked_at(
    file: Path, tmp_path: Path
) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "second").symlink_to(file)
    (tmp_path / "first").symlink_to("open/second")
    check_path(tmp_path / "first")
    (tmp_path / "open").chmod(0o777)
    assert f"{tmp_path}/open: expected mode" in refusal_of(check_path, tmp_path / "first")
    (tmp_path / "round").symlink_to("round")
    assert "at most 40 symbolic links" in refusal_of(check_path, tmp_path / "round")


@root_only
@pytest.mark.parametrize("what", ["file", "directory", "link"])
def test_what_is_somebody_elses(file: Path, tmp_path: Path, what: str) -> None:
    (tmp_path / "sticky").mkdir()
    (tmp_path / "sticky").chmod(0o1777)
    link = tmp_path / "sticky" / "link"
    link.symlink_to(file)
    bad = {"file": file, "directory": file.parent, "link": link}[what]
    os.chown(bad, NOBODY, -1, follow_symlinks=False)
    refused = refusal_of(check_path, link)
    assert f"{bad}: expected it to be root's or ours, got uid {NOBODY}" in refused
    assert f"chown root {bad}" in refused


Spoil = Callable[[Path], None]


def _config(folder: Path) -> None:
    (folder / "hostcc.toml").chmod(0o666)


def _drop_in(folder: Path) -> None:
    (folder / "hostcc.d").mkdir()
    (folder / "hostcc.d" / "more.toml").touch()
    os.chown(folder / "hostcc.d" / "more.toml", NOBODY, -1)


def _drop_ins(folder: Path) -> None:
    (folder / "hostcc.d").mkdir()
    (folder / "hostcc.d").chmod(0o1777)


def _run_dir(folder: Path) -> None:
    (folder / "run").mkdir()
    (folder / "run").chmod(0o1777)


def _run_dir_of_nobody(folder: Path) -> None:
    (folder / "run").mkdir()
    os.chown(folder / "run", NOBODY, -1)


def _linked_run_dir(folder: Path) -> None:
    (folder / "open").mkdir()
    (folder / "open").chmod(0o777)
    (folder / "open" / "run").mkdir()
    (folder / "run").symlink_to("open/run")


def _parent(folder: Path) -> None:
    folder.chmod(0o777)


@pytest.mark.kernel
@pytest.mark.parametrize(
    "spoil",
    [_config, _drop_in, _drop_ins, _run_dir, _run_dir_of_nobody, _linked_run_dir, _parent],
)
def test_an_agent_starts_from_nothing_that_others_can_write(host: RealHost, spoil: Spoil) -> None:
    path = host.configure()
    spoil(host.folder)
    words = [*host.enter, *HOSTCC, "agent", "--config", str(path)]
    agent = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    host.agents.append(agent)
    until(lambda: agent.poll() is not None or host.answers(agent.pid), "its end")
    assert agent.poll() == Exit.CONFIGURATION
    _, told = agent.communicate(timeout=60)
    assert (told.count("\n"), "ch" in told) == (1, True), told
    assert str(host.folder) in told
    assert list(host.root.glob("*/")) == []
    check = subprocess.run([*words, "--check"], capture_output=True, text=True, check=False)
    assert check.returncode == Exit.CONFIGURATION
    assert str(host.folder) in check.stdout


@pytest.mark.kernel
@pytest.mark.parametrize(
    "name", ["journal.new", "journal.old.jsonl", "journal.jsonl", "agent.lock"]
)
def test_no_link_in_the_run_directory_is_written_through(host: RealHost, name: str) -> None:
    victim = host.folder / "victim"
    victim.write_text("as it was\n")
    victim.chmod(0o600)
    run = host.folder / "run"
    run.mkdir(mode=0o755)
    if name in {"journal.new", "journal.old.jsonl"}:  # the next record begins a fresh file
        (run / "journal.jsonl").write_text("x" * (1 << 20) + "\n")
        (run / "journal.jsonl").chmod(0o600)
    (run / name).symlink_to(victim)
    path = host.configure()
    agent = subprocess.Popen(
        [*host.enter, *HOSTCC, "agent", "--config", str(path)], stderr=subprocess.PIPE, text=True
    )
    host.agents.append(agent)
    until(lambda: agent.poll() is not None or host.answers(agent.pid), "an answer, or its end")
    agent.terminate()
    _, told = agent.communicate(timeout=60)
    assert victim.read_text() == "as it was\n"
    assert "Traceback" not in told
    assert (agent.returncode == 0) is (name not in {"journal.jsonl", "agent.lock"}), told
