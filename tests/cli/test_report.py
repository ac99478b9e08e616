"""`hostcc report`: one small file that loads nothing, whatever jobs are called."""

from __future__ import annotations

import argparse
import gzip
import io
import json
import math
import os
import re
import tarfile
import threading
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostcc.cli import bugreport, report, report_evidence, report_page, view
from hostcc.client import RefusedError
from hostcc.config.sections.plan import PlanConfig
from hostcc.daemon.planning.view_export import exported
from hostcc.errors import Exit, HostccError, InputError, NoAgentError
from tests.cli import report_world
from tests.cli.full_disk import full_disk

pytestmark = pytest.mark.unit

MAX_BYTES = 2_000_000
NAMES = [f"training-job-{at:03}" for at in range(100)]


class Page(HTMLParser):
    """What a browser would make of it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def checked(text: str) -> Page:
    """The page, which does nothing and loads nothing."""
    page = Page(text)
    assert page.open == []
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "img", "iframe", "object", "embed", "link", "base", "form"}
    for tag, attributes in page.tags:
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            assert name not in {"src", "srcset", "action", "data", "xlink:href"}
            assert name != "href" or (value or "").startswith("#")
            assert name != "style" or re.fullmatch(r"background:#[0-9a-f]{6}", value or "")
    policy = [
        attributes.get("content")
        for tag, attributes in page.tags
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]
    assert "url(" not in text
    assert "@import" not in text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    return page


def test_a_hundred_jobs_are_below_two_megabytes() -> None:
    text = report_page.page(report_world.evidence(NAMES))
    assert len(text.encode()) < MAX_BYTES
    shown = set(checked(text).text)
    assert set(NAMES) <= shown
    titles = ["Jobs", "Last hour", "Shared links", "Paths in use", "Plan", "Members"]
    assert set(titles) <= shown


def test_there_are_circles_paths_and_charts() -> None:
    page = checked(report_page.page(report_world.evidence(NAMES[:9])))
    assert "turned to fit best" in page.text
    assert "mode mltcp" in page.text
    assert any(re.fullmatch(r"leaf0>spine\d.*", text) for text in page.text)
    assert "1.20x" in page.text  # the median gain
    paths = [attributes["d"] or "" for tag, attributes in page.tags if tag == "path"]
    assert max(map(len, paths)) > 1000


def test_hostile_names_are_only_text() -> None:
    text = report_page.page(report_world.evidence(report_world.HOSTILE))
    page = checked(text)
    assert any("<script>alert" in one for one in page.text)
    assert any("</style><img" in one for one in page.text)


def call(*words: str) -> int:
    parser = argparse.ArgumentParser()
    report.register(parser.add_subparsers())
    args = parser.parse_args(["report", *words])
    status: int = args.func(args)
    return status


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What an agent answers by request; other requests it refuses."""
    told = report_world.evidence(NAMES[:4], points=60)
    of: dict[str, Any] = {
        op: msgspec.to_builtins(getattr(told, op)) for op in report_evidence.KINDS
    }
    assert told.view is not None
    of["view"] = msgspec.to_builtins(exported(told.view, PlanConfig(), in_force=True))

    def ask(path: Path, op: str, **fields: Any) -> Any:
        if not of:
            raise NoAgentError(f"no agent at {path}")
        if op not in of:
            raise RefusedError("failed", f"gossip.enabled is false ({op})")
        return of[op]

    for module in (bugreport, view, report_evidence):
        monkeypatch.setattr(module, "ask", ask)
    monkeypatch.setattr(bugreport, "_log", lambda: b"line\n")
    monkeypatch.setattr("hostcc.cli.diagnosis.examine", lambda _: [])
    return of


def test_of_an_agent(
    answers: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.html"
    del answers["peers"], answers["view"]
    assert call("--out", str(out)) == 0
    assert capsys.readouterr().out.splitlines() == [
        "without peers: gossip.enabled is false (peers)",
        "without view: gossip.enabled is false (view)",
        f"{out}: {out.stat().st_size / 1e3:.0f} kB; open it in a browser",
    ]
    text = checked(out.read_text()).text
    assert "training-job-003" in text
    assert "Not available: gossip.enabled is false (view)" in text
    assert list(tmp_path.iterdir()) == [out]
    assert call("--out", str(out), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "hostcc.report/1"
    assert told["bytes"] == out.stat().st_size
    assert set(told["missing"]) == {"peers", "view"}


def test_of_an_archive_is_what_it_was_of_the_agent(answers: dict[str, Any], tmp_path: Path) -> None:
    archive, out, own = tmp_path / "b.tar.gz", tmp_path / "a.html", tmp_path / "own.html"
    parser = argparse.ArgumentParser()
    bugreport.register(parser.add_subparsers())
    args = parser.parse_args(["bugreport", "--out", str(archive)])
    args.func(args)
    assert call("--out", str(own)) == 0
    answers.clear()  # there is no agent any more
    assert call("--from", str(archive), "--out", str(out)) == 0
    there, here = (
        [one for one in checked(file.read_text()).text if "Taken" not in one] for file in (out, own)
    )
    assert there == here
    with pytest.raises(NoAgentError):
        call("--out", str(out))


def packed(files: dict[str, bytes]) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(raw.getvalue(), 1, mtime=0)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "expected an archive of hostcc bugreport"),
        (b"x" * 100, "expected an archive of hostcc bugreport"),
        (gzip.compress(b"x" * 5000, mtime=0), "expected an archive of hostcc bugreport"),
        (packed({"x/plan.json": b"{}"}), "expected status.json in it"),
        (packed({"status.json": b"{"}), r"status.json: expected JSON"),
        (packed({"status.json": b"[" * 200_000}), r"status.json: expected JSON"),
        (packed({"status.json": b"{}"}), "expected an answer of this version"),
        (packed({f"{at}": b"" for at in range(65)}), "expected at most 64 files"),
    ],
)
def test_an_archive_that_is_none(content: bytes, expected: str, tmp_path: Path) -> None:
    file, out = tmp_path / "b.tar.gz", tmp_path / "r.html"
    file.write_bytes(content)
    with pytest.raises(InputError, match=expected) as caught:
        call("--from", str(file), "--out", str(out))
    assert "\n" not in str(caught.value)
    assert not out.exists()


@pytest.mark.parametrize(
    ("op", "at", "value"),
    [
        ("status", ("agent", "uptime_s"), math.nan),
        ("history", ("end",), 1e17),
        ("history", ("end",), 1e300),
        ("history", ("jobs", 0, "sent", 59), math.inf),
        ("plan", ("jobs", 0, "shift_s"), math.inf),
    ],
)
def test_figures_of_an_archive_that_no_agent_has(
    op: str, at: tuple[Any, ...], value: float, answers: dict[str, Any], tmp_path: Path
) -> None:
    *way, last = at
    inside = answers[op]
    for key in way:
        inside = inside[key]
    inside[last] = value
    file = tmp_path / "b.tar.gz"
    files = {f"{name}.json": json.dumps(answer).encode() for name, answer in answers.items()}
    del files["view.json"]
    file.write_bytes(packed(files))
    with pytest.raises(InputError, match="expected figures of an agent, got: "):
        call("--from", str(file), "--out", str(tmp_path / "r.html"))


def test_an_archive_that_unpacks_to_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_evidence, "MAX_BYTES", 1 << 20)
    file = tmp_path / "b.tar.gz"
    file.write_bytes(packed({"status.json": bytes(2 << 20)}))
    with pytest.raises(InputError, match="expected at most 1048576 bytes when unpacked"):
        call("--from", str(file), "--out", str(tmp_path / "r.html"))


def test_nothing_is_followed_out_of_an_archive(tmp_path: Path, answers: dict[str, Any]) -> None:
    raw = io.BytesIO()
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    status = json.dumps(answers["status"]).encode()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        link = tarfile.TarInfo("x/plan.json")
        link.type, link.linkname = tarfile.SYMTYPE, str(secret)
        archive.addfile(link)
        entry = tarfile.TarInfo("../../status.json")
        entry.size = len(status)
        archive.addfile(entry, io.BytesIO(status))
    file = tmp_path / "b.tar.gz"
    file.write_bytes(gzip.compress(raw.getvalue()))
    before = sorted(tmp_path.iterdir())
    out = tmp_path / "r.html"
    assert call("--from", str(file), "--out", str(out)) == 0
    assert sorted(tmp_path.iterdir()) == sorted([*before, out])
    assert "hunter2" not in out.read_text()


def test_a_place_that_cannot_be_written(answers: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a file that can be written, got: No such file"):
        call("--out", str(tmp_path / "none" / "r.html"))
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="expected a file that can be written"):
        call("--out", str(tmp_path / "folder"))
    assert [one.name for one in tmp_path.iterdir()] == ["folder"]


def test_what_is_no_file_is_not_replaced_by_one(answers: dict[str, Any], tmp_path: Path) -> None:
    """As /dev/stdout and /dev/null are not: root may do that."""
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    target.touch()
    link.symlink_to(target)
    assert call("--out", str(link)) == 0
    assert link.is_symlink()
    assert target.stat().st_size > 0
    os.mkfifo(pipe)
    read = list[bytes]()
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    assert call("--out", str(pipe)) == 0
    reader.join(10)
    assert pipe.is_fifo()
    assert len(read[0]) == target.stat().st_size
    assert sorted(tmp_path.iterdir()) == [link, pipe, target]


def test_a_full_disk_is_no_wrong_input(answers: dict[str, Any], tmp_path: Path) -> None:
    with full_disk(), pytest.raises(HostccError, match="cannot be written: File too") as caught:
        call("--out", str(tmp_path / "r.html"))
    assert caught.value.exit_status is Exit.FAILED
    assert not list(tmp_path.iterdir())
