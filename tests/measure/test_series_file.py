"""Recorded series, and files that claim to be some."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.errors import HostccError, InputError
from hostcc.measure import series_file
from hostcc.measure.series import series
from hostcc.measure.series_file import Meta, Recording, load, save
from hostcc.measure.work import Activity
from tests.measure.jobs import MS, regular
from tests.refusals import is_one_line

pytestmark = pytest.mark.unit

META = Meta(job="train", host="a", bin_ns=MS, start_ns=5, links={"eth0": 1e10}, flop=2e12)


def refused(path: Path) -> str:
    """The line with which a file is refused."""
    with pytest.raises(InputError) as caught:
        load(path)
    text = str(caught.value)
    assert is_one_line(text)
    assert str(path) in text
    return text


def written(path: Path, **changes: bytes | None) -> Path:
    """A good file with some of its members replaced or left out."""
    good = path.with_name("good.npz")
    busy = Activity(np.array([0.0, 1.0]), np.array([1.0, 2.0]), np.array([0.5, np.nan]))
    save(good, Recording(META, regular(10, 3, start_ns=5), busy))
    with zipfile.ZipFile(good) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            stem = name.removesuffix(".npy")
            data = changes.get(stem, source.read(name))
            if data is not None:
                target.writestr(name, data)
    return path


def npy(values: object, dtype: str) -> bytes:
    out = io.BytesIO()
    np.save(out, np.asarray(values, dtype=dtype), allow_pickle=dtype == "O")
    return out.getvalue()


def meta(**changes: object) -> bytes:
    document = msgspec.to_builtins(META) | changes
    return npy(np.frombuffer(msgspec.json.encode(document), np.uint8), "u1")


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2**47), st.integers(0, 2**47)), max_size=50),
    st.integers(1, 10**12),
    st.integers(-(2**62), 2**62),
)
def test_what_is_kept_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    counts: list[tuple[int, int]],
    bin_ns: int,
    start_ns: int,
) -> None:
    path = tmp_path_factory.mktemp("record") / "a.npz"
    tx, rx = [c[0] for c in counts], [c[1] for c in counts]
    made = series(tx, rx, bin_ns, start_ns)
    save(path, Recording(Meta(job="j", bin_ns=bin_ns, start_ns=start_ns), made))
    found = load(path)
    assert found.series.tx.tolist() == tx
    assert found.series.rx.tolist() == rx
    assert (found.series.bin_ns, found.series.start_ns) == (bin_ns, start_ns)
    assert found.activity is None


def test_activity_links_and_work(tmp_path: Path) -> None:
    found = load(written(tmp_path / "a.npz"))
    assert found.meta == META
    assert found.activity is not None
    assert found.activity.busy[0] == 0.5
    assert np.isnan(found.activity.busy[1])
    assert found.series.start_ns == 5


def test_numpy_reads_it(tmp_path: Path) -> None:
    with np.load(written(tmp_path / "a.npz"), allow_pickle=False) as data:
        assert data["tx"].sum() == regular(10, 3).tx.sum()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tx": None}, "expected an array 'tx', got none"),
        ({"meta": None}, "expected an array 'meta'"),
        ({"rx": npy([1, 2], "<i8")}, "rx: expected 30 bins, got 2"),
        ({"rx": npy([-1] * 30, "<i8")}, "rx: expected bytes from 0"),
        ({"rx": npy([2**50] * 30, "<i8")}, "rx: expected bytes from 0"),
        ({"tx": npy([1.0] * 30, "<f8")}, "tx: expected one dimension of int64"),
        ({"tx": npy([[1] * 30], "<i8")}, "tx: expected one dimension"),
        ({"tx": npy([{}], "O")}, "tx: expected one dimension of int64, got object"),
        ({"tx": npy([1] * 30, "<i8")[:-8]}, "tx: expected one dimension"),
        ({"tx": b"nonsense"}, "tx: expected an array"),
        ({"tx": b""}, "tx: expected an array"),
        ({"tx": b"\x93NUMPY\x01\x00\x02\x00{("}, "tx: expected an array"),
        ({"meta": npy([1], "<i8")}, "meta: expected one dimension of uint8"),
        ({"meta": npy(list(b"{"), "u1")}, "meta: "),
        ({"meta": npy(list(b'{"job": "\xff"}'), "u1")}, "meta: 'utf-8' codec can't decode"),
        ({"meta": meta(version=2)}, "expected hostcc-series version 1"),
        ({"meta": meta(schema="other")}, "expected hostcc-series version 1"),
        ({"meta": meta(bin_ns=0)}, "bin_ns"),
        ({"meta": meta(job="../x")}, "job"),
        ({"meta": meta(links={"eth0": -1.0})}, "links"),
        ({"meta": meta(other=1)}, "other"),
        ({"busy": npy([2.0, 0.0], "<f8")}, "busy: expected values from 0 to 1"),
        ({"busy": npy([1.0], "<f8")}, "busy: expected a start and an end"),
        ({"busy_end_s": npy([np.nan, 3], "<f8")}, "busy: expected intervals"),
        ({"busy_end_s": npy([-1, 3], "<f8")}, "busy: expected intervals"),
        ({"busy_start_s": None}, "expected an array 'busy_start_s'"),
    ],
)
def test_refusals(tmp_path: Path, changes: dict[str, bytes | None], words: str) -> None:
    assert words in refused(written(tmp_path / "a.npz", **changes))


def test_what_is_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    assert "No such file" in refused(path)
    path.write_bytes(b"hello")
    assert "expected a recorded series" in refused(path)
    good = written(tmp_path / "b.npz").read_bytes()
    path.write_bytes(good[: len(good) // 2])
    assert "expected a recorded series" in refused(path)


def test_damage_in_another_compression(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("meta.npy", meta())
    data = bytearray(path.read_bytes())
    data[60:80] = b"\xff" * 20
    path.write_bytes(data)
    assert "expected a recorded series" in refused(path)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 255))
def test_damaged_files_are_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, where: int, value: int
) -> None:
    folder = tmp_path_factory.mktemp("record")
    data = bytearray(written(folder / "a.npz").read_bytes())
    data[where % len(data)] = value
    path = folder / "b.npz"
    path.write_bytes(data)
    try:
        load(path)
    except InputError as error:
        assert is_one_line(str(error))


def test_bombs_are_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_file, "MAX_BINS", 100)
    path = written(tmp_path / "a.npz", tx=npy([0] * 10_000, "<i8"))
    assert "tx: expected at most 100 values" in refused(path)
    with pytest.raises(HostccError, match="expected at most 100 bins"):
        save(path, Recording(META, regular(10, 11)))


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(HostccError, match="No such file"):
        save(tmp_path / "none" / "a.npz", Recording(META, regular(10, 3)))
