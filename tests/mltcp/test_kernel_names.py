"""Names of congestion controls: short enough for the kernel, distinct, refused when bad."""

from __future__ import annotations

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hostcc.bpf.loader.object import BpfObject
from hostcc.bpf.loader.objects import object_path
from hostcc.mltcp.kernel_names import STRUCT_OPS, kernel_names
from hostcc.mltcp.params import Variant

TAG = st.text(string.ascii_lowercase + string.digits, min_size=4, max_size=4)
CA_NAME_BYTES = 15  # TCP_CA_NAME_MAX less the final zero


@given(TAG)
def test_names_fit_and_differ(tag: str) -> None:
    names = kernel_names(tag, Variant)
    assert set(names) == set(Variant)
    assert len(set(names.values())) == len(Variant)
    for name in names.values():
        assert len(name.encode()) <= CA_NAME_BYTES
        # The tracker knows its own by the first eight bytes.
        assert name.startswith(f"hcc_{tag}_")


@given(st.lists(st.sampled_from(Variant), unique=True))
def test_only_what_was_asked_for(variants: list[Variant]) -> None:
    assert list(kernel_names("a1b2", variants)) == variants


@given(TAG, TAG)
def test_agents_with_other_tags_do_not_collide(one: str, other: str) -> None:
    shared = set(kernel_names(one, Variant).values()) & set(kernel_names(other, Variant).values())
    assert bool(shared) == (one == other)


@given(st.text(max_size=8).filter(lambda tag: not (len(tag) == 4 and tag.isalnum())))
@example("ABCD").via("case")
@example("abcd\n").via("a line's end")
@example("äbcd").via("beyond ASCII")
def test_bad_tags(tag: str) -> None:
    with pytest.raises(ValueError, match="expected four characters of a-z and 0-9"):
        kernel_names(tag, Variant)


def test_every_variant_is_in_the_object() -> None:
    with BpfObject.open(object_path("mltcp")) as obj:
        assert set(STRUCT_OPS.values()) == set(obj.struct_ops())
