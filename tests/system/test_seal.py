"""The seal: any change of any byte is noticed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.system.seal import SealError, key_of, seal, unseal

KEY = bytes(range(32))


@given(image=st.binary(max_size=300))
def test_round_trip(image: bytes) -> None:
    sealed = seal(image, KEY)
    assert unseal(sealed) == image
    assert key_of(sealed) == KEY


@given(image=st.binary(max_size=100), where=st.integers(0), change=st.integers(1, 255))
def test_any_change_is_noticed(image: bytes, where: int, change: int) -> None:
    sealed = bytearray(seal(image, KEY))
    sealed[where % len(sealed)] ^= change
    with pytest.raises(SealError):
        unseal(bytes(sealed))
    assert key_of(bytes(sealed)) == b""


@given(image=st.binary(max_size=100), length=st.integers(0))
def test_any_truncation_is_noticed(image: bytes, length: int) -> None:
    sealed = seal(image, KEY)
    with pytest.raises(SealError):
        unseal(sealed[: length % len(sealed)])
