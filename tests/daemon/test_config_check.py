"""Keys that do not fit this host, as far as that shows without a kernel to change."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostcc.config.load import read
from hostcc.coord.keys import files, identity
from hostcc.daemon.config_check import misfits
from tests.coord.certified import Issuer, install, new_host

pytestmark = pytest.mark.unit


def found(folder: Path, text: str) -> list[str]:
    """One line for each misfit of a configuration; FOLDER in it is the test's own."""
    path = folder / "h.toml"
    own = f'[agent]\nobserve_only = true\nrun_dir = "{folder}/run"\n'
    path.write_text(own + text.replace("FOLDER", str(folder)))
    loaded = read(path)
    return [one.line(loaded.file_of(one.key)) for one in misfits(loaded.config)]


def keyed(folder: Path, *allowed: str) -> None:
    """Keys of node1, who allows some others."""
    files.write_host(folder / "keys", identity.HostKeys("node1", (identity.generate(1e9),)))
    for name in allowed:
        files.allow(folder / "keys", identity.HostKeys(name, (identity.generate(1e9),)).member)


def test_the_defaults_of_an_observer_fit(tmp_path: Path) -> None:
    assert found(tmp_path, "") == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('socket_group = "hcc-nobody"', "agent.socket_group: expected a group of this host"),
        ('[pcie]\ngroup = "hcc-nobody"', "pcie.group: expected a group of this host"),
        ('[pcie]\ntopology = "FOLDER/none"', "pcie.topology: expected an NCCL topology file or"),
        (
            "[paths]\nenabled = true",
            "paths.enabled: expected false without gossip.enabled, got true",
        ),
        (
            '[paths]\nenabled = true\nsource = "static"\nfile = "FOLDER/none"',
            'paths.file: expected a file for source = "static", got FOLDER/none: expected a',
        ),
        (
            '[paths]\nenabled = true\nsource = "hash"\nfile = "FOLDER/h.toml"',
            'paths.file: expected a file for source = "hash", got FOLDER/h.toml: ',
        ),
        (
            '[gossip]\nenabled = true\nkeys = ""\nseeds = ["node2@198.18.77.77:7471"]',
            "gossip.seeds: expected members of this host only without keys",
        ),
    ],
)
def test_what_does_not_fit(tmp_path: Path, text: str, words: str) -> None:
    lines = found(tmp_path, text + "\n")
    start = f"{tmp_path}/h.toml: {words.replace('FOLDER', str(tmp_path))}"
    assert any(line.startswith(start) for line in lines), lines


def test_seeds_have_to_be_on_the_allow_list(tmp_path: Path) -> None:
    keyed(tmp_path, "node2")
    section = '[gossip]\nenabled = true\nkeys = "FOLDER/keys"\nlisten = "127.0.0.1:7999"\n'
    seeds = 'seeds = ["node2@198.18.77.2:7471", "node3@198.18.77.3:7471"]\n'
    (line,) = found(tmp_path, section + seeds)
    assert line.endswith(
        "gossip.seeds: expected members on the allow-list (hostcc keys allow), got node3"
    )


def test_a_file_on_the_allow_list_that_is_none(tmp_path: Path) -> None:
    keyed(tmp_path)
    (tmp_path / "keys/allowed/node2.pub").write_text("no keys")
    section = '[gossip]\nenabled = true\nkeys = "FOLDER/keys"\nlisten = "127.0.0.1:7999"\n'
    (line,) = found(tmp_path, section)
    assert "gossip.keys: expected a member's public keys in allowed/node2.pub, got " in line


def test_nothing_is_made(tmp_path: Path) -> None:
    keyed(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    found(tmp_path, '[marks]\nsocket = "FOLDER/m.sock"\n')
    (tmp_path / "h.toml").unlink()
    assert sorted(tmp_path.rglob("*")) == before


CERTIFIED = '[gossip]\nenabled = true\nkeys = "FOLDER/keys"\nlisten = "127.0.0.1:7999"\n'


def test_certified_hosts_need_no_seed_on_the_allow_list(tmp_path: Path) -> None:
    host, issuer = new_host("node1"), Issuer()
    install(tmp_path / "keys", host, issuer, issuer.sign(host))
    seeds = 'seeds = ["node2@198.18.77.2:7471", "dns:members.example:7471"]\n'
    assert found(tmp_path, CERTIFIED + seeds) == []
    (tmp_path / "keys/authorities/broken.revoked").write_text("revocations = 1")
    (line,) = found(tmp_path, CERTIFIED + seeds)
    assert "gossip.keys: expected an authority's file in authorities/broken.revoked" in line


def test_another_hosts_certificate(tmp_path: Path) -> None:
    host, issuer = new_host("node1"), Issuer()
    install(tmp_path / "keys", host, issuer, issuer.sign(new_host("node2")))
    (line,) = found(tmp_path, CERTIFIED)
    assert "gossip.keys: expected keys as `hostcc keys` makes them" in line
    assert "expected a certificate of node1 for a key in host.key, got the certificate of" in line


def test_dns_seeds_need_an_authority(tmp_path: Path) -> None:
    keyed(tmp_path)
    (line,) = found(tmp_path, CERTIFIED + 'seeds = ["dns:members.example:7471"]\n')
    assert "gossip.seeds: expected an authority (hostcc keys add)" in line
