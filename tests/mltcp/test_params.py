"""JobParams: defaults, immutability, and the words that configuration uses."""

from __future__ import annotations

import dataclasses

import pytest

from hostcc.mltcp.params import JobParams, Mode, Scope, Shape, ShapeKind, Variant


def test_defaults() -> None:
    params = JobParams(name="job")
    assert params.variant is Variant.HOSTCC
    assert params.mode is Mode.MLTCP
    assert params.scope is Scope.JOB
    assert params.shape == Shape(ShapeKind.LINEAR, slope=1.75, intercept=0.25)
    assert params.weight == params.static_weight == 1.0
    assert params.bytes_per_iteration is None
    assert params.silence_us is None
    assert 0 < params.target_min_us < params.target_max_us


@pytest.mark.parametrize("frozen", [JobParams(name="job"), Shape()])
def test_frozen_and_usable_as_a_key(frozen: JobParams | Shape) -> None:
    assert {frozen: 1}[dataclasses.replace(frozen)] == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(frozen, dataclasses.fields(frozen)[0].name, "other")


def test_words() -> None:
    assert [str(mode) for mode in Mode] == ["off", "mltcp", "static"]
    assert [str(scope) for scope in Scope] == ["job", "flow"]
    assert [str(kind) for kind in ShapeKind] == ["linear", "exponential", "table"]
    assert [str(variant) for variant in Variant] == ["hostcc", "reno", "cubic", "dctcp"]
