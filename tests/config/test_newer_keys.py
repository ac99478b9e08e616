"""After a downgrade: keys of the newer version are ignored and named, all others refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.config import newer_keys
from hostcc.config.load import read
from hostcc.errors import InputError
from hostcc.version import version

LATER = "999.0"


def written(folder: Path, text: str, run_dir: str = "") -> Path:
    path = folder / "h.toml"
    path.write_text(f'[agent]\nrun_dir = "{run_dir or folder}"\n{text}')
    return path


def later(folder: Path, *keys: str, number: str = LATER) -> None:
    """A newer version has run here, which knew these, too."""
    known = sorted({*newer_keys.known(), *keys})
    content = {"schema": "hostcc.configuration-keys/1", "versions": {number: known}}
    (folder / newer_keys.NAME).write_text(json.dumps(content))


def test_keys_of_this_version() -> None:
    assert {"agent", "agent.run_dir", "job.name", "discover.unit.job"} <= newer_keys.known()
    assert "agent.hartbeat_s" not in newer_keys.known()


def test_a_newer_versions_keys_are_ignored_and_named(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        'later_s = 3\n[later]\nenabled = true\n[[job]]\nname = "a"\nlater = 1\nweight = 2\n',
    )
    with pytest.raises(InputError, match=r"h\.toml: .*got an unknown key"):
        read(path)
    later(tmp_path, "agent.later_s", "later", "later.enabled", "job.later")
    loaded = read(path)
    (job,) = loaded.config.job
    assert (job.name, job.weight) == ("a", 2)
    assert list(loaded.ignored) == [
        f"{path}: {key}: ignored, a key of a newer version"
        for key in ("agent.later_s", "later.enabled", "job.later")
    ]


@pytest.mark.parametrize(
    "text", ["hartbeat_s = 1\n", "[later]\nenabled = true\ntypo = 1\n", "heartbeat_s = 'x'\n"]
)
def test_what_no_version_knows_is_refused(tmp_path: Path, text: str) -> None:
    later(tmp_path, "later", "later.enabled")
    with pytest.raises(InputError):
        read(written(tmp_path, text))


def test_an_older_versions_keys_are_refused(tmp_path: Path) -> None:
    later(tmp_path, "agent.gone", number="0.0.1")
    with pytest.raises(InputError, match=r"agent\.gone"):
        read(written(tmp_path, "gone = 1\n"))


@pytest.mark.parametrize("raw", [b"", b"[]", b"\xff", b'{"schema":"x","versions":{}}'])
def test_a_file_that_is_none_allows_nothing(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / newer_keys.NAME).write_bytes(raw)
    with pytest.raises(InputError, match=r"agent\.later_s"):
        read(written(tmp_path, "later_s = 1\n"))


def test_a_file_that_others_can_write_allows_nothing(tmp_path: Path) -> None:
    later(tmp_path, "agent.later_s")
    (tmp_path / newer_keys.NAME).chmod(0o666)
    with pytest.raises(InputError, match=r"agent\.later_s"):
        read(written(tmp_path, "later_s = 1\n"))


def test_versions_write_what_they_know(tmp_path: Path) -> None:
    later(tmp_path, "agent.later_s")
    newer_keys.remember(tmp_path, version())
    assert "agent.later_s" in newer_keys.newer(tmp_path, version()), "a downgrade keeps it"
    for number in range(newer_keys.MAX_VERSIONS + 2):
        newer_keys.remember(tmp_path, f"1.{number}")
    content = json.loads((tmp_path / newer_keys.NAME).read_text())
    assert len(content["versions"]) == newer_keys.MAX_VERSIONS
    assert LATER in content["versions"]
    newer_keys.remember(tmp_path, "unknown")
    assert json.loads((tmp_path / newer_keys.NAME).read_text()) == content
    assert newer_keys.newer(tmp_path, LATER) == frozenset()


VALUES: Any = st.recursive(
    st.integers() | st.booleans() | st.text(max_size=3),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from("abc"), below),
    max_leaves=12,
)
KEYS = st.sets(st.sampled_from(["a", "b", "c", "a.a", "a.b", "b.a", "b.c", "a.a.b"]))


@given(st.dictionaries(st.sampled_from("abc"), VALUES), KEYS)
def test_only_those_keys_go(data: dict[str, Any], unknown: set[str]) -> None:
    kept, ignored = newer_keys.without(data, unknown, ())
    assert set(ignored) <= unknown
    assert newer_keys.without(data, (), ()) == (data, [])
    assert newer_keys.without(data, unknown, unknown) == (data, [])
    assert set(data) - set(kept) <= unknown
