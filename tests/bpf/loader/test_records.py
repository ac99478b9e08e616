"""Values into C memory: exactly what was said, or an error."""

from __future__ import annotations

import numpy as np
import pytest

from hostcc.bpf.loader.records import join, pack, pack_one

PADDED = np.dtype({"names": ["a", "s"], "formats": ["u1", "S4"], "offsets": [0, 4], "itemsize": 12})


def test_padding_is_zero_whatever_came() -> None:
    dirty = np.frombuffer(b"\x01\xff\xff\xffabc\0\xff\xff\xff\xff", PADDED)
    assert pack(dirty, PADDED).tobytes() == b"\x01\0\0\0abc\0\0\0\0\0"
    assert pack_one(dirty[0], PADDED).tobytes() == b"\x01\0\0\0abc\0\0\0\0\0"
    assert pack_one((1, "abc"), PADDED).tobytes() == b"\x01\0\0\0abc\0\0\0\0\0"


@pytest.mark.parametrize(
    "value", [5, "abcd", (1,), (1, "abcde"), (256, "a"), (-1, "a"), None, [(1, "abcde")], [5]]
)
def test_no_guessing(value: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        pack(value, PADDED)


def test_one_is_not_many() -> None:
    with pytest.raises(ValueError, match="expected one item"):
        pack_one([1, 2], np.dtype("u4"))
    with pytest.raises(ValueError, match="expected one item"):
        pack_one([(1, "a")], PADDED)
    with pytest.raises(ValueError, match=r"expected \(4,\) items"):
        pack_one([1, 2, 3], np.dtype(("u4", (4,))))
    assert pack_one([1, 2], np.dtype(("u4", (2,)))).tolist() == [1, 2]


def test_joined_arrays_keep_their_layout() -> None:
    parts = [pack([(1, "a")], PADDED), pack([(2, "b"), (3, "c")], PADDED)]
    joined = join(parts, PADDED)
    assert joined.dtype.itemsize == 12
    assert joined["a"].tolist() == [1, 2, 3]
    assert len(join([], PADDED)) == 0
