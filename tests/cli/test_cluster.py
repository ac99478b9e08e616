"""`hostcc cluster init`: what it makes is what agents accept, and it overwrites nothing."""

from __future__ import annotations

import json
import stat
import subprocess
import tomllib
from pathlib import Path

import pytest

from hostcc.cli.main import main
from hostcc.config.load import load
from hostcc.coord.keys.keyring import Keyring
from hostcc.daemon.config_check import misfits
from hostcc.daemon.gossip.member_settings import settings

pytestmark = pytest.mark.unit

Capture = pytest.CaptureFixture[str]


def init(capsys: Capture, *words: str | Path, status: int = 0) -> tuple[str, str]:
    assert main(["cluster", "init", *map(str, words)]) == status
    printed = capsys.readouterr()
    return printed.out, printed.err


def tree(top: Path) -> dict[str, bytes]:
    return {str(one.relative_to(top)): one.read_bytes() for one in top.rglob("*") if one.is_file()}


def modes(top: Path) -> dict[str, int]:
    return {str(one.relative_to(top)): stat.S_IMODE(one.stat().st_mode) for one in top.rglob("*")}


def test_agents_accept_what_it_makes(tmp_path: Path, capsys: Capture) -> None:
    out, etc = tmp_path / "out", tmp_path / "etc"
    shown, said = init(
        capsys, "node1=192.0.2.1", "node2=2001:db8::2", "node3", "--out", out, "--etc", etc
    )
    assert len(shown.splitlines()) == 3
    assert "keep" in said
    for number, name in enumerate(("node1", "node2", "node3")):
        folder = out / name
        assert modes(folder) == {
            "hostcc.d": 0o755,
            "hostcc.d/10-cluster.toml": 0o644,
            "keys": 0o755,
            "keys/allowed": 0o755,
            f"keys/allowed/{name}.pub": 0o644,
            "keys/authorities": 0o755,
            "keys/authorities/main.pub": 0o644,
            "keys/host.cert": 0o644,
            "keys/host.key": 0o600,
            f"keys/{name}.pub": 0o644,
        }
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        # As it is copied to the host: the printed command without ssh.
        pack, _, unpack = shown.splitlines()[number].partition(" | ssh ")
        remote = unpack.partition(" ")[2]
        subprocess.run(["sh", "-c", f"{pack} | sh -c {remote}"], check=True, timeout=60)
        (etc / "hostcc.toml").write_text("")
        config = load(etc / "hostcc.toml")
        checked = {"gossip.keys", "gossip.name", "gossip.seeds"}
        assert [one for one in misfits(config) if one.key in checked] == []
        member = settings(config, "1")
        assert member.name == name
        ring = Keyring(etc / "keys")
        assert ring.certificate is not None
        assert ring.certificate.serial == number + 1
        assert ring.certifies
        assert [one for one, _ in member.seeds] == [
            one for one in ("node1", "node2", "node3") if one != name
        ]
        subprocess.run(["rm", "-r", str(etc)], check=True, timeout=60)
    drop_in = tomllib.loads((out / "node2/hostcc.d/10-cluster.toml").read_text())["gossip"]
    assert drop_in["listen"] == "[::]:7471"
    assert drop_in["advertise"] == "[2001:db8::2]:7471"


def test_more_hosts_later(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out"
    init(capsys, "a=192.0.2.1", "b=192.0.2.2", "--out", out)
    before = tree(out)
    answer = json.loads(init(capsys, "c=192.0.2.3", "--out", out, "--json")[0])
    assert answer["schema"] == "hostcc.cluster/1"
    (host,) = answer["hosts"]
    assert (host["name"], host["address"]) == ("c", "192.0.2.3")
    assert "keys/host.key" in host["files"]
    after = tree(out)
    changed = {name for name, text in before.items() if after[name] != text}
    assert changed == {"cluster.toml", "authority/issued.json"}
    seeds = tomllib.loads((out / "c/hostcc.d/10-cluster.toml").read_text())["gossip"]["seeds"]
    assert seeds == ["a@192.0.2.1:7471", "b@192.0.2.2:7471"]
    names = {out / one / "keys/authorities/main.pub" for one in "abc"}
    assert len({one.read_bytes() for one in names}) == 1


def test_seeds_by_dns(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out"
    init(capsys, "a", "--out", out, "--dns", "hostcc.example", "--port", "7946")
    made = tomllib.loads((out / "a/hostcc.d/10-cluster.toml").read_text())["gossip"]
    assert made["seeds"] == ["dns:hostcc.example:7946"]
    assert made["listen"] == "0.0.0.0:7946"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["a=192.0.2.9"], "a: expected a host that"),
        (["b", "b"], "b: expected a host that"),
        (["b=192.0.2.2", "c=192.0.2.2"], "c=192.0.2.2: expected another address than that of b"),
        (["b=300.1.1.1"], "b=300.1.1.1: expected HOST:PORT"),
        (["authority"], "expected a host that"),
        (["../up"], "HOST: expected 1 to 64 characters"),
        (["b=not an address"], "expected HOST:PORT"),
        (["b=$(reboot)"], "expected HOST:PORT"),
        (["b", "--port", "0"], "--port: expected"),
        (["b", "--days", "-1"], "--days: expected"),
        (["b", "--etc", "etc"], "--etc: expected an absolute path"),
        (["b", "--dns", "192.0.2.1"], "--dns: expected dns:NAME:PORT"),
    ],
)
def test_nothing_is_made_of_wrong_words(
    tmp_path: Path, capsys: Capture, words: list[str], expected: str
) -> None:
    out = tmp_path / "out"
    init(capsys, "a=192.0.2.1", "--out", out)
    before = tree(out)
    _, err = init(capsys, *words, "--out", out, status=2)
    assert err.count("\n") == 1
    assert expected in err
    assert tree(out) == before
