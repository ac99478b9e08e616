"""The thesis's jobs: what fixes each number, other batches, weights, the simulation."""

from __future__ import annotations

import pytest

from benchmarks.evidence import thesis_jobs
from benchmarks.evidence.thesis_jobs import Shape, fluid, thesis, weights

pytestmark = pytest.mark.unit
NUMBERS = {"iteration_s", "send_s", "gbit"}


def test_every_number_says_what_fixes_it() -> None:
    fixed = [thesis().link.fixed, thesis().unfair.fixed]
    for name, shape in thesis().jobs.items():
        assert set(shape.fixed) == NUMBERS, name
        fixed += shape.fixed.values()
    assert {words.partition(":")[0] for words in fixed} == {"published", "fitted", "stands"}


def test_another_batch_computes_in_proportion_and_sends_as_much() -> None:
    known, other = thesis().shape("vgg19-1400"), thesis().shape("vgg19-1400 at 700")
    assert other.compute_s == pytest.approx(known.compute_s / 2)
    assert other.bytes == known.bytes


def test_more_eager_jobs_have_twice_the_weight() -> None:
    rows = {row.name: row for row in thesis().rows}
    assert weights(rows["DLRM + DLRM"]) == [2, 1]
    assert weights(rows["WideResNet101 + VGG16"]) == [1, 2]
    assert weights(rows["VGG19 + VGG16(1700) + ResNet50"]) == [1, 2, 4]


def test_jobs_share_by_weight_up_to_their_rate() -> None:
    link = thesis().link.gbit
    half = Shape(1.0, 1.0, link)
    first, second = fluid([half, half], [2, 1], 1, {})
    assert first.seconds[0] == pytest.approx(1.5)
    assert second.seconds[0] == pytest.approx(3.0)  # the first begins again at once
    slow = Shape(1.0, 0.5, link / 4)
    assert [one.mean for one in fluid([slow, slow], [1, 1], 3, {})] == pytest.approx([1.0, 1.0])


def test_a_circle_begins_with_communication() -> None:
    shape = thesis().shape("dlrm")
    assert thesis_jobs.pattern("a", shape).phases[0][:2] == (0.0, shape.send_s)
