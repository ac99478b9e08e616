"""Fabrics from TOML: what they become, and what is refused."""

from __future__ import annotations

import itertools
import tracemalloc
from pathlib import Path

import pytest

from hostcc.errors import InputError
from hostcc.sim import fabric_file
from hostcc.sim.fabrics import GBIT, thesis_cluster

pytestmark = pytest.mark.unit
CLUSTER = """
name = "thesis-cluster"
rates = { nic = 50, agg = 50, core = 50 }
hosts = [
  { count = 4, tors = [0] }, { count = 4, tors = [1] }, { count = 4, tors = [2] },
  { count = 4, tors = [3] }, { count = 4, tors = [4] }, { count = 4, tors = [5] },
]
tors = [{ count = 3, aggs = [0, 1] }, { count = 3, aggs = [2, 3] }]
aggs = [{ count = 4, cores = [0, 1, 2] }]
"""
SMALL = """
name = "small"
nics = 2
rates = { nic = 100, pcie = 250 }
hosts = [{ count = 2, tors = [0] }, { count = 1, tors = [1] }]
tors = [{ count = 2, aggs = [0] }]
aggs = [{ count = 1 }]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "fabric.toml"
    path.write_text(text)
    return path


def test_a_named_fabric_can_be_written_as_a_file(tmp_path: Path) -> None:
    assert fabric_file.read(written(tmp_path, CLUSTER)) == thesis_cluster()


def test_a_short_file_cannot_ask_for_many_links_or_paths(tmp_path: Path) -> None:
    ups = ", ".join(map(str, range(256)))
    hosts, wide = "hosts = [{ count = 20000, tors = [", f"aggs = [{ups}]"
    rest = "aggs = [{ count = 256, cores = [0] }]\n"
    head = 'name = "x"\nnics = 4\nrates = { nic = 100 }\n'
    ports = f"{head}{hosts}{ups}] }}]\ntors = [{{ count = 256, {wide} }}]\n{rest}"
    with pytest.raises(InputError, match="at most 500000 links in all, got 20545792"):
        fabric_file.read(written(tmp_path, ports))
    halves = ", ".join(map(str, range(128))), ", ".join(map(str, range(128, 256)))
    tors = ", ".join(f"{{ count = 1, aggs = [{half}] }}" for half in halves)
    cores = f"aggs = [{{ count = 256, cores = [{ups}] }}]\n"
    text = f"{head}{hosts}0, 1] }}]\ntors = [{tors}]\n{cores}"
    with pytest.raises(InputError, match="up to 100000 paths of two hosts, got 16777216"):
        fabric_file.read(written(tmp_path, text))


def test_many_kinds_of_hosts_take_little_memory(tmp_path: Path) -> None:
    pairs = itertools.islice(itertools.combinations(range(1024), 2), 6000)
    hosts = ",".join(f"{{ count = 1, tors = [{one}, {other}] }}" for one, other in pairs)
    text = f"hosts = [{hosts}]\ntors = [{{ count = 1024, aggs = [0] }}]\naggs = [{{ count = 1 }}]\n"
    path = written(tmp_path, f'name = "x"\nrates = {{ nic = 100 }}\n{text}')
    tracemalloc.start()
    try:
        assert len(fabric_file.read(path).host_tors) == 6000
        assert tracemalloc.get_traced_memory()[1] < 120e6
    finally:
        tracemalloc.stop()


def test_rates_and_paths(tmp_path: Path) -> None:
    small = fabric_file.read(written(tmp_path, SMALL))
    assert small.rates["nic"] == 100 * GBIT
    assert len(small.paths((0, 0), (2, 1))[0]) == 2 + 2 + 2
    assert "pcie" not in fabric_file.read(written(tmp_path, CLUSTER)).rates


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("nics = 2", "nics = 0", "nics"),
        ("nics = 2", "nics = 2\nspeed = 1", "speed"),
        ("nic = 100", "nic = nan", "rates.nic"),
        ("tors = [0] }", "tors = [2] }", "hosts: tors: expected numbers below 2, got 2"),
        ("tors = [0] }", "tors = [] }", "tors"),
        ("aggs = [0] }", "aggs = [0, 0] }", "tors: aggs: expected each once"),
        ("aggs = [0] }", "aggs = [] }", "expected a path between hosts 0 and 2, got none"),
        ("count = 2, tors", "count = 20000, tors", "hosts: count: expected at most 20000 in all"),
        ("count = 2, aggs", "count = 1025, aggs", "tors: count: expected at most 1024 in all"),
        ('name = "small"', "name = ", "expected TOML"),
        ("nics = 2", f"nics = {'2' * 5000}", "expected TOML"),
        ("nics = 2", "nics = 2023-13-45", "expected TOML"),
    ],
)
def test_refusals_are_one_line(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in SMALL
    path = written(tmp_path, SMALL.replace(old, new, 1))
    with pytest.raises(InputError) as refused:
        fabric_file.read(path)
    text = str(refused.value)
    assert text.startswith(str(path))
    assert words in text
    assert "\n" not in text


def test_two_halves_without_a_common_core_are_cut(tmp_path: Path) -> None:
    text = CLUSTER.replace(
        "aggs = [{ count = 4, cores = [0, 1, 2] }]",
        "aggs = [{ count = 2, cores = [0] }, { count = 2, cores = [1] }]",
    )
    with pytest.raises(InputError, match="expected a path between hosts 0 and 12, got none"):
        fabric_file.read(written(tmp_path, text))
