"""`hostcc keys`: from a new host to a revoked one."""

from __future__ import annotations

import hashlib
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from hostcc.cli.main import main

pytestmark = pytest.mark.unit

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *words: str | Path, status: int = 0) -> tuple[str, str]:
    """Standard output and error of `hostcc keys ...`, which must end as expected."""
    assert main(["keys", *map(str, words)]) == status
    printed = capsys.readouterr()
    if status == 2:
        assert printed.out == ""
        assert printed.err.count("\n") == 1
    return printed.out, printed.err


def members(capsys: Capture, directory: Path, status: int = 0) -> dict[str, list[str]]:
    out, _ = run(capsys, "list", "--json", "--dir", directory, status=status)
    found: dict[str, list[str]] = {}
    for key in json.loads(out)["keys"]:
        found.setdefault(key["member"], []).append(key["state"])
    return found


def test_two_hosts(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    out, _ = run(capsys, "new", "--name", "a", "--dir", a)
    assert out == f"{a}/a.pub\n"
    run(capsys, "new", "--name", "b", "--dir", b)
    out, _ = run(capsys, "allow", b / "b.pub", "--dir", a)
    assert out == f"{a}/allowed/b.pub\n"
    shown, _ = run(capsys, "show", "--dir", a)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(shown.encode())))
    run(capsys, "allow", "-", "--dir", b)
    assert members(capsys, a) == members(capsys, b) == {"a": ["valid"], "b": ["valid"]}
    run(capsys, "revoke", "b", "--dir", a)
    assert members(capsys, a) == {"a": ["valid"]}
    _, err = run(capsys, "revoke", "b", "--dir", a, status=2)
    assert "expected a member of the allow-list" in err


def test_a_key_has_the_same_name_wherever_it_is_shown(tmp_path: Path, capsys: Capture) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    _, made = run(capsys, "new", "--name", "a", "--dir", a)
    run(capsys, "new", "--name", "b", "--dir", b)
    (key,) = json.loads(run(capsys, "list", "--json", "--dir", a)[0])["keys"]
    # What a connection shows is all that is known of a stranger's key.
    assert key["fingerprint"] == hashlib.sha256(bytes.fromhex(key["curve"])).hexdigest()[:16]
    _, allowed = run(capsys, "allow", a / "a.pub", "--dir", b)
    listed, _ = run(capsys, "list", "--dir", a)
    assert all(key["fingerprint"] in text for text in (made, allowed, listed))
    assert key["sign_fingerprint"] in listed
    _, rotated = run(capsys, "rotate", "--dir", a)
    after = json.loads(run(capsys, "list", "--json", "--dir", a)[0])["keys"]
    assert after[-1]["fingerprint"] in rotated


def test_rotation(tmp_path: Path, capsys: Capture) -> None:
    run(capsys, "new", "--name", "a", "--dir", tmp_path)
    run(capsys, "rotate", "--overlap", "2", "--dir", tmp_path)
    assert members(capsys, tmp_path) == {"a": ["valid", "to come"]}
    _, err = run(capsys, "rotate", "--dir", tmp_path, status=2)
    assert "expected no rotation under way" in err
    out, _ = run(capsys, "list", "--dir", tmp_path)
    assert [line.split()[0] for line in out.splitlines()] == ["Member", "a", "a"]
    run(capsys, "allow", tmp_path / "a.pub", "--dir", tmp_path / "other")
    assert members(capsys, tmp_path / "other") == {"a": ["valid", "to come"]}


def test_refusals(tmp_path: Path, capsys: Capture) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    run(capsys, "new", "--name", "a", "--dir", a)
    run(capsys, "new", "--name", "a", "--dir", b)
    for words, message in [
        (("new", "--name", "a", "--dir", a), f"{a}/host.key: expected no keys yet"),
        (("new", "--name", "a/b", "--dir", c), "--name: expected 1 to 64 characters"),
        (("allow", b / "a.pub", "--dir", a), "name: a is known with other keys; --replace"),
        (("allow", b / "host.key", "--dir", a), "expected public keys, got secret ones"),
        (("allow", b / "none", "--dir", a), "expected a readable file, got: No such file"),
        (("revoke", "../a", "--dir", a), "NAME: expected 1 to 64 characters"),
        (("rotate", "--overlap", "nan", "--dir", a), "--overlap: expected 0.01 to 9600 hours"),
        (("rotate", "--dir", c), f"{c}: expected a directory, got: No such file"),
        (("show", "--dir", c), f"{c}: expected a directory"),
        (("list", "--dir", c), f"{c}/allowed: expected a directory"),
    ]:
        assert message in run(capsys, *words, status=2)[1]
    run(capsys, "allow", b / "a.pub", "--replace", "--dir", a)


def test_somebody_elses_key_is_not_allowed_under_another_name(
    tmp_path: Path, capsys: Capture
) -> None:
    run(capsys, "new", "--name", "a", "--dir", tmp_path)
    fake = tmp_path / "fake"
    fake.write_text((tmp_path / "a.pub").read_text().replace('name = "a"', 'name = "z"'))
    fake.chmod(0o644)
    _, err = run(capsys, "allow", fake, "--dir", tmp_path, status=2)
    assert "expected one that no other member has, got a's" in err


def test_files_that_are_not_taken_are_named(tmp_path: Path, capsys: Capture) -> None:
    run(capsys, "new", "--name", "a", "--dir", tmp_path)
    (tmp_path / "allowed/b.pub").write_text("name = 5\n")
    out, err = run(capsys, "list", "--dir", tmp_path, status=1)
    assert out.splitlines()[1].startswith("a ")
    assert f"not taken: {tmp_path}/allowed/b.pub: name: expected" in err
    assert members(capsys, tmp_path, status=1) == {"a": ["valid"]}
