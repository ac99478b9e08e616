"""`hostcc keys authority|sign|add|revoke`: from a new authority to a revoked host."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from hostcc.coord.keys import authority_store, files
from tests.cli.test_keys import Capture, run

pytestmark = pytest.mark.unit


@pytest.fixture
def authority(tmp_path: Path, capsys: Capture) -> Path:
    made = tmp_path / "authority"
    out, _ = run(capsys, "authority", "--authority", made, "--name", "main")
    assert out == f"{made}/main.pub\n"
    return made


def host(capsys: Capture, top: Path, name: str) -> Path:
    run(capsys, "new", "--name", name, "--dir", top / name)
    return top / name


def listed(capsys: Capture, directory: Path, status: int = 0) -> dict[str, Any]:
    out, _ = run(capsys, "list", "--json", "--dir", directory, status=status)
    found = json.loads(out)
    assert isinstance(found, dict)
    return found


def test_from_a_new_authority_to_a_revoked_host(
    tmp_path: Path, authority: Path, capsys: Capture
) -> None:
    a, b = host(capsys, tmp_path, "a"), host(capsys, tmp_path, "b")
    out, _ = run(capsys, "sign", a / "a.pub", b / "b.pub", "--authority", authority)
    assert out == f"{authority}/issued/a.cert\n{authority}/issued/b.cert\n"
    for directory in (a, b):
        certificate = authority / f"issued/{directory.name}.cert"
        out, _ = run(capsys, "add", authority / "main.pub", certificate, "--dir", directory)
        assert out == f"{directory}/authorities/main.pub\n{directory}/host.cert\n"
    shown = listed(capsys, a)
    assert shown["schema"] == "hostcc.keys/1"
    (trusted,) = shown["authorities"]
    assert trusted["name"] == "main"
    own = shown["certificate"]
    assert (own["member"], own["serial"]) == ("a", 1)
    assert own["authority"] == trusted["fingerprint"]
    assert own["keys"] == [files.read_secret(a).keys[0].public.fingerprint]
    words, _ = run(capsys, "list", "--dir", a)
    assert "every host that authority main" in words
    assert "this host's certificate: serial 1, 365 days left" in words
    # b is revoked; the list counts where it is added, and an older one is not taken any more.
    out, _ = run(capsys, "revoke", "b", "--authority", authority)
    assert out == f"{authority}/main.revoked\n"
    old = tmp_path / "old"
    old.write_bytes((authority / "main.revoked").read_bytes())
    run(capsys, "revoke", "a", "--authority", authority)
    run(capsys, "add", authority / "main.revoked", "--dir", a)
    shown = listed(capsys, a, status=1)
    assert shown["revoked"] == [
        {"authority": trusted["fingerprint"], "number": 2, "serials": [1, 2]}
    ]
    assert "revoked by its authority" in str(shown["skipped_authorities"])
    _, err = run(capsys, "add", old, "--dir", a, status=2)
    assert "expected a list from number 2 on, got 1" in err
    issued = json.loads(run(capsys, "authority", "--authority", authority, "--json")[0])
    assert issued["schema"] == "hostcc.authority/1"
    assert [(one["member"], one["revoked"]) for one in issued["issued"]] == [
        ("a", True),
        ("b", True),
    ]
    _, err = run(capsys, "revoke", "c", "--authority", authority, status=2)
    assert "expected a member with a valid certificate: c" in err


def test_secrets_are_kept(authority: Path, capsys: Capture) -> None:
    key = authority / files.AUTHORITY_FILE
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(authority.stat().st_mode) == 0o700
    before = key.read_bytes()
    _, err = run(capsys, "authority", "--authority", authority, "--name", "main", status=2)
    assert "expected no authority yet" in err
    assert key.read_bytes() == before
    key.chmod(0o644)
    _, err = run(capsys, "authority", "--authority", authority, status=2)
    assert "others must not read it" in err


def test_no_serial_number_is_used_twice(tmp_path: Path, authority: Path, capsys: Capture) -> None:
    keys = files.read_secret(host(capsys, tmp_path, "a"))
    made = [authority_store.sign(authority, keys.member, 1e9, 100.0) for _ in range(3)]
    assert [one.serial for one in made] == [1, 2, 3]
    # What has ended is forgotten, and its numbers are not used again.
    later = authority_store.sign(authority, keys.member, 1e9 + 1000, 100.0)
    assert later.serial == 4
    assert [one.serial for one in authority_store.read_index(authority).issued] == [4]
    (authority / authority_store.INDEX_FILE).write_text('{"next_serial": 0}')
    _, err = run(capsys, "sign", tmp_path / "a/a.pub", "--authority", authority, status=2)
    assert authority_store.INDEX_FILE in err


REFUSED = {
    "secret": ("authority.key", "expected an authority's public file, got its secret one"),
    "truncated": ("cut", "expected a certificate, got one that is truncated or damaged"),
    "no base64": ("no", "certificate: expected base64"),
    "both": ("both", "expected revocations and nothing else"),
    "another host's": ("issued/b.cert", "expected a certificate of a for a key in host.key, got"),
    "list of strangers": ("strange", "signed by authority"),
    "no authority": ("issued/a.cert", "which is not trusted here; none is"),
    "too long": ("long", "at most"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_added(tmp_path: Path, authority: Path, capsys: Capture, case: str) -> None:
    name, words = REFUSED[case]
    a, b = host(capsys, tmp_path, "a"), host(capsys, tmp_path, "b")
    run(capsys, "sign", a / "a.pub", b / "b.pub", "--authority", authority)
    if case != "no authority":
        run(capsys, "add", authority / "main.pub", "--dir", a)
    good = (authority / "issued/a.cert").read_text()
    made = {
        "cut": good[: good.index('"') + 201] + '"\n',
        "no": 'certificate = "§"\n',
        "both": good + "revocations = 1\n",
        "long": "#" * 30_000,
    }
    if name in made:
        (authority / name).write_text(made[name])
    if name == "strange":
        other = tmp_path / "other"
        run(capsys, "authority", "--authority", other, "--name", "other")
        run(capsys, "sign", b / "b.pub", "--authority", other)
        run(capsys, "revoke", "b", "--authority", other)
        (authority / name).write_bytes((other / "other.revoked").read_bytes())
    before = {path: path.read_bytes() for path in a.rglob("*") if path.is_file()}
    _, err = run(capsys, "add", authority / name, "--dir", a, status=2)
    assert words in err
    assert {path: path.read_bytes() for path in a.rglob("*") if path.is_file()} == before


def test_a_rotated_key_is_certified_beside_the_old_one(
    tmp_path: Path, authority: Path, capsys: Capture
) -> None:
    a = host(capsys, tmp_path, "a")
    run(capsys, "rotate", "--dir", a)
    run(capsys, "sign", a / "a.pub", "--authority", authority, "--days", "30")
    run(capsys, "add", authority / "main.pub", authority / "issued/a.cert", "--dir", a)
    own = listed(capsys, a)["certificate"]
    assert own["keys"] == [key.public.fingerprint for key in files.read_secret(a).keys]
    assert len(own["keys"]) == 2
    for days in ("0", "1e9", "nan"):
        _, err = run(
            capsys, "sign", a / "a.pub", "--authority", authority, "--days", days, status=2
        )
        assert "--days: expected 0.01 to 3650" in err
