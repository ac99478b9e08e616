"""Trace files: what is in them, and one line for whatever is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.errors import InputError
from hostcc.sim import traces
from tests.refusals import is_one_line
from tests.sim import traffic_files

pytestmark = pytest.mark.unit


def test_traffic_is_read_by_number_of_jobs_and_ring(tmp_path: Path) -> None:
    fabric, sets = traces.read_traffic(traffic_files.write(tmp_path))
    assert (fabric.tors, fabric.spines, fabric.rate, fabric.first_nic) == (3, 2, 100e9, 5)
    assert fabric.nic_tor.tolist() == [0, 0, 1, 1, 2, 2]
    assert [found.name for found in sets] == ["jobs_2/ring_2", "jobs_10/ring_2"]
    first = sets[0].jobs[1]
    assert first.name == "1-M_1"
    assert first.size.tolist() == [101, 101, 7]
    assert first.dst_tor.tolist() == [1, 0, 0]
    assert first.stage.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("incl_range(3,4)", "incl_range(4,5)", "cores"),
        ("incl_range(3,4)", "3-4", "cores"),
        ("9:10-2", "9-2", "undirected_edges"),
        ("9:10-2", "9:10-4", "undirected_edges"),
        ("9:10-2", "x", "undirected_edges"),
        ("rate_bit_per_ns=100", "rate_bit_per_ns=nan", "link_data_rate"),
        ("rate_bit_per_ns=100", "rate_bit_per_ns=-1", "link_data_rate"),
        ("num_nodes=11", "num_nodes", "KEY=VALUE"),
        ("servers=incl_range(5,10)", "servers=incl_range(5,999999999)", "servers"),
    ],
)
def test_wrong_topologies_are_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = tmp_path / "topology.properties"
    path.write_text(traffic_files.TOPOLOGY.replace(old, new))
    with pytest.raises(InputError, match=words) as error:
        traces.read_topology(path)
    assert is_one_line(str(error.value))
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("5 7 0 1 10 100 20", "whole numbers"),
        ("5 7 0 1 10 -100 20 0", "whole numbers"),
        ("5 7 0 1 10 1e3 20 0", "whole numbers"),
        ("5 7 0 1 10 99999999999999999999 20 0", "numbers up to"),
        ("5 7 0 2 10 100 20 0", "a NIC of ToR 2"),
        ("4 7 0 1 10 100 20 0", "src: expected a NIC of ToR 0"),
        ("5 11 0 1 10 100 20 0", "dst: expected a NIC of ToR 1"),
    ],
)
def test_wrong_flows_are_refused(tmp_path: Path, row: str, words: str) -> None:
    fabric, _ = traces.read_traffic(traffic_files.write(tmp_path))
    path = tmp_path / "job_0-X.txt"
    path.write_text(traffic_files.HEAD + row + "\n")
    with pytest.raises(InputError, match=words) as error:
        traces.read_job(path, fabric)
    assert is_one_line(str(error.value))


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        traces.read_traffic(tmp_path)
    (tmp_path / "topology.properties").write_text(traffic_files.TOPOLOGY)
    with pytest.raises(InputError, match="folders, got none"):
        traces.read_traffic(tmp_path)
    (tmp_path / "topology.properties").write_bytes(b"num_nodes=\xff\n")
    with pytest.raises(InputError, match="UTF-8"):
        traces.read_topology(tmp_path / "topology.properties")


@settings(max_examples=60)
@given(st.binary(max_size=200))
def test_no_bytes_get_past_the_reader_as_anything_but_input_errors(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / "topology.properties").write_bytes(data)
    try:
        traces.read_topology(folder / "topology.properties")
    except InputError as error:
        assert is_one_line(str(error))
