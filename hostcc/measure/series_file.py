"""A series in a file, to keep it and to analyse it again.

The file is an .npz that numpy reads, too: `meta` (JSON), `tx`, `rx`, and where GPU activity was
recorded `busy_start_s`, `busy_end_s`, `busy`.  What is read is checked before it is believed:
sizes before anything is allocated, no pickled objects, types and lengths of every array.
"""

from __future__ import annotations

import io
import lzma
import tokenize
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

from hostcc.errors import HostccError, InputError
from hostcc.limits import JOB_NAME, VISIBLE
from hostcc.measure.series import ByteSeries
from hostcc.measure.work import Activity
from hostcc.system.validate import UNDECODABLE

SCHEMA = "hostcc-series"
VERSION = 1
MAX_BINS = 1 << 24
"""Bins of a recorded series: four hours and a half in bins of a millisecond."""
MAX_META = 1 << 16
"""Bytes of `meta`."""
HEADER = 1 << 12
"""Bytes that a .npy header may have beside the values."""
MAX_LINK_BITS_PER_S = 1e15

_DAMAGES = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError,
    NotImplementedError, RuntimeError,  # for a compression that it lacks, for what is encrypted
)  # fmt: skip
"""What zipfile raises beside OSError."""

Name = Annotated[str, msgspec.Meta(pattern=JOB_NAME)]
Text = Annotated[str, msgspec.Meta(pattern=rf"^{VISIBLE}{{0,256}}\Z")]
Speed = Annotated[float, msgspec.Meta(gt=0, le=MAX_LINK_BITS_PER_S)]
Flop = Annotated[float, msgspec.Meta(ge=0, le=1e30)]


class Meta(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a file says of its series."""

    schema: Text = SCHEMA
    version: int = VERSION
    job: Name
    host: Text = ""
    bin_ns: Annotated[int, msgspec.Meta(ge=1, le=10**12)]
    start_ns: Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)] = 0
    links: Annotated[dict[Text, Speed], msgspec.Meta(max_length=64)] = {}
    """Name -> bits per second."""
    flop: Flop | None = None
    """W of one iteration, where it is known."""


@dataclass(frozen=True, eq=False)
class Recording:
    """A job's series and what was known beside it."""

    meta: Meta
    series: ByteSeries
    activity: Activity | None = None


def save(path: Path, recording: Recording) -> None:
    """Write a file; raises HostccError."""
    if len(recording.series) > MAX_BINS:
        raise HostccError(f"{path}: expected at most {MAX_BINS} bins, got {len(recording.series)}")
    arrays: dict[str, npt.NDArray[np.generic]] = {
        "meta": np.frombuffer(msgspec.json.encode(recording.meta), dtype=np.uint8),
        "tx": recording.series.tx.astype("<i8"),
        "rx": recording.series.rx.astype("<i8"),
    }
    if recording.activity is not None:
        arrays["busy_start_s"] = recording.activity.start_s.astype("<f8")
        arrays["busy_end_s"] = recording.activity.end_s.astype("<f8")
        arrays["busy"] = recording.activity.busy.astype("<f8")
    try:
        with path.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
    except OSError as error:
        raise HostccError(f"{path}: {error.strerror}") from error


def load(path: Path) -> Recording:
    """Read a file; raises InputError that names the file, the part and what was expected."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _read(path, archive)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except _DAMAGES as error:
        raise InputError(f"{path}: expected a recorded series, got {error}") from error


def _read(path: Path, archive: zipfile.ZipFile) -> Recording:
    data = _member(path, archive, "meta", np.dtype(np.uint8), MAX_META).tobytes()
    try:
        meta = msgspec.json.decode(data, type=Meta)
    except UNDECODABLE as error:
        raise InputError(f"{path}: meta: {error}") from error
    if (meta.schema, meta.version) != (SCHEMA, VERSION):
        raise InputError(
            f"{path}: meta: expected {SCHEMA} version {VERSION}, got {meta.schema!r:.40} "
            f"version {meta.version}"
        )
    tx, rx = (_member(path, archive, name, np.dtype("<i8"), MAX_BINS) for name in ("tx", "rx"))
    for name, values in (("tx", tx), ("rx", rx)):
        if len(values) != len(tx):
            raise InputError(f"{path}: {name}: expected {len(tx)} bins, got {len(values)}")
        # Sums over the whole series have to stay exact.
        if len(values) and not 0 <= values.min() <= values.max() < 1 << 48:
            raise InputError(f"{path}: {name}: expected bytes from 0 to 2^48 in every bin")
    series = ByteSeries(meta.bin_ns, meta.start_ns, tx.astype(np.int64), rx.astype(np.int64))
    return Recording(meta, series, _activity(path, archive))


def _activity(path: Path, archive: zipfile.ZipFile) -> Activity | None:
    if "busy.npy" not in archive.namelist():
        return None
    start, end, busy = (
        _member(path, archive, name, np.dtype("<f8"), MAX_BINS).astype(np.float64)
        for name in ("busy_start_s", "busy_end_s", "busy")
    )
    if not len(start) == len(end) == len(busy):
        raise InputError(f"{path}: busy: expected a start and an end for each value")
    if not (np.isfinite(start).all() and np.isfinite(end).all() and (end >= start).all()):
        raise InputError(f"{path}: busy: expected intervals that end after they start")
    known = busy[np.isfinite(busy)]
    if len(known) and not 0 <= known.min() <= known.max() <= 1:
        raise InputError(f"{path}: busy: expected values from 0 to 1")
    return Activity(start, end, busy)


def _member(
    path: Path, archive: zipfile.ZipFile, name: str, dtype: np.dtype[np.generic], most: int
) -> npt.NDArray[np.generic]:
    """One array of the file, one-dimensional, of this type and at most so long."""
    try:
        info = archive.getinfo(f"{name}.npy")
    except KeyError:
        raise InputError(f"{path}: expected an array {name!r}, got none") from None
    if info.file_size > most * dtype.itemsize + HEADER:
        raise InputError(f"{path}: {name}: expected at most {most} values, got more")
    with archive.open(info) as member:
        data = member.read(info.file_size)  # and no more, whatever is packed in it
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        if version != (1, 0):
            raise ValueError(f"format {version}")
        shape, _, found = np.lib.format.read_array_header_1_0(stream)
    except (ValueError, SyntaxError, TypeError, tokenize.TokenError) as error:
        raise InputError(f"{path}: {name}: expected an array, got {error}"[:300]) from error
    body = data[stream.tell() :]
    if found != dtype or len(shape) != 1 or shape[0] * dtype.itemsize != len(body):
        raise InputError(
            f"{path}: {name}: expected one dimension of {dtype}, got {found} {shape!r:.40}"
        )
    return np.frombuffer(body, dtype=dtype)
