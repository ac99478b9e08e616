"""Objects on the real kernel: constants, refusals, what may be done when."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostcc.bpf.loader.errors import BpfError
from hostcc.bpf.loader.object import BpfObject
from tests.bpf.conftest import fresh_names
from tests.bpf.traffic import connect_in


def test_lists_what_is_in_it(opened: BpfObject) -> None:
    assert opened.programs()[:2] == ["on_socket", "dump_sockets"]
    assert {"table_hash", "events", "first", "second"} <= set(opened.maps())
    assert opened.enums["SAMPLE_SMALL"] == 1
    assert opened.dtype("sample_event").itemsize == 16


@pytest.mark.parametrize(
    "content",
    [b"", b"#!/bin/sh\n" * 20],
)
def test_not_an_object(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.bpf.o"
    path.write_bytes(content)
    with pytest.raises(BpfError, match="not an object built by hostcc") as caught:
        BpfObject.open(path)
    assert caught.value.path == path
    assert str(caught.value).startswith(f"{path}: ")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(BpfError, match=r"cannot read \(No such file"):
        BpfObject.open(tmp_path / "none.bpf.o")


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_truncated_object(sample_path: Path, tmp_path: Path, data: st.DataObject) -> None:
    image = sample_path.read_bytes()
    path = tmp_path / "cut.bpf.o"
    path.write_bytes(image[: data.draw(st.integers(0, len(image) - 1))])
    with pytest.raises(BpfError):
        BpfObject.open(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_object(sample_path: Path, tmp_path: Path, data: st.DataObject) -> None:
    image = bytearray(sample_path.read_bytes())
    position = data.draw(st.integers(0, len(image) - 1))
    image[position] ^= data.draw(st.integers(1, 255))
    path = tmp_path / "damaged.bpf.o"
    path.write_bytes(image)
    with pytest.raises(BpfError, match=r"damaged|not an object"):
        BpfObject.open(path)


def test_unknown_constant(opened: BpfObject) -> None:
    with pytest.raises(BpfError, match=r"no constant treshold in \.rodata; there are: enabled"):
        opened.set_rodata("treshold", 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("threshold", -1),
        ("threshold", 1 << 32),
        ("threshold", "many"),
        ("table", [1, 2, 3]),
        ("label", b"nine char"),
        ("threshold", None),
    ],
)
def test_constant_of_wrong_type(opened: BpfObject, name: str, value: object) -> None:
    with pytest.raises(BpfError, match=f"constant {name} cannot be"):
        opened.set_rodata(name, value)


@pytest.mark.parametrize("method", ["attach_struct_ops", "attach_iter", "map"])
def test_unknown_names(opened: BpfObject, method: str) -> None:
    with pytest.raises(BpfError, match="nothing"):
        getattr(opened, method)("nothing")
    with pytest.raises(BpfError, match="no type nothing"):
        opened.dtype("nothing")


def test_too_early(opened: BpfObject) -> None:
    with pytest.raises(BpfError, match="not loaded"):
        opened.map("table_hash").lookup((1, 2))
    with pytest.raises(BpfError, match="too early"):
        opened.attach_struct_ops("first")
    with pytest.raises(BpfError, match="not loaded"):
        opened.attach_iter("dump_sockets")


@pytest.mark.kernel
def test_constants_arrive(opened: BpfObject, cgroup: Path) -> None:
    opened.set_rodata("threshold", 12345)
    opened.set_rodata("offset", -(1 << 40))
    opened.set_rodata("label", b"changed")
    opened.set_rodata("enabled", False)
    opened.set_rodata("table", [0, 0, 0, 99])
    opened.load()
    fd = os.open(cgroup, os.O_RDONLY)
    with opened.attach_cgroup("on_socket", fd):
        connect_in(cgroup)
    os.close(fd)
    seen = opened.map("table_seen").lookup(0)
    assert seen.tolist() == (12345, 0, -(1 << 40), b"changed", 99)


@pytest.mark.kernel
def test_too_late(loaded: BpfObject) -> None:
    with pytest.raises(BpfError, match="too late to set threshold: already loaded"):
        loaded.set_rodata("threshold", 1)
    with pytest.raises(BpfError, match="too late"):
        loaded.load()
    loaded.close()
    with pytest.raises(BpfError, match="closed"):
        loaded.load()


@pytest.mark.kernel
def test_verifier_log(progs: Path) -> None:
    obj = BpfObject.open(progs / "refused.bpf.o")
    with pytest.raises(BpfError) as caught:
        obj.load()
    obj.close()
    message = str(caught.value)
    assert message.startswith(f"{progs}/refused.bpf.o: cannot load: prog 'unchecked': R")
    assert "map_value_or_null" in message
    assert "\n" not in message
    assert "BEGIN PROG LOAD LOG" in caught.value.log
    assert "*value += 1" in caught.value.log  # the verifier quotes the source


@pytest.mark.kernel
def test_unwanted_programs_and_struct_ops_stay_out(opened: BpfObject) -> None:
    opened.set_autoload("on_socket", False)
    opened.set_autocreate("second", False)
    opened.load()
    loaded = set(opened.program_stats()["name"])
    assert loaded == {"dump_sockets", "first_ssthresh", "both_avoid", "both_undo"}
    with pytest.raises(BpfError, match="was not loaded"):
        opened.attach_struct_ops("second")
    with pytest.raises(BpfError, match="on_socket is not loaded"):
        opened.program_fd("on_socket")
    opened.attach_struct_ops("first").close()


@pytest.mark.kernel
def test_wanted_again(opened: BpfObject) -> None:
    opened.set_autocreate("second", False)
    opened.set_autocreate("second", True)
    opened.load()
    opened.attach_struct_ops("second").close()


@pytest.mark.kernel
def test_shared_map(loaded: BpfObject, sample_path: Path) -> None:
    with BpfObject.open(sample_path, fresh_names()) as other:
        other.reuse_map("table_hash", loaded.map("table_hash"))
        other.load()
        loaded.map("table_hash").update((1, 2), ("shared", [0] * 4, 1, 0, 0, (0, 0)))
        assert other.map("table_hash").lookup((1, 2))["name"] == b"shared"


@pytest.mark.kernel
def test_open_objects_do_not_leak_descriptors(sample_path: Path) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    with BpfObject.open(sample_path, fresh_names()) as obj:
        obj.load()
    before = descriptors()
    for _ in range(3):
        with BpfObject.open(sample_path, fresh_names()) as obj:
            obj.load()
            obj.attach_struct_ops("first").close()
            obj.attach_iter("dump_sockets").close()
    assert descriptors() == before
