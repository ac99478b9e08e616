"""Peaks of GPUs by their names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.measure.gpu.models import MODELS, model_peak
from hostcc.measure.gpu.peaks import peak
from hostcc.measure.gpu.readings import Gpu, Pipe

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("name", "teraflops"),
    [
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H100 NVL", 835),
        ("NVIDIA H200", 989),
        ("NVIDIA GH200 480GB", 989),
        ("NVIDIA H20", 148),
        ("NVIDIA B200", 2250),
        ("NVIDIA GB200", 2500),
        ("A100-SXM4-40GB", 312),
        ("NVIDIA A100 80GB PCIe", 312),
        ("NVIDIA A10", 125),
        ("NVIDIA L4", 121),
        ("NVIDIA L40", 181),
        ("NVIDIA L40S", 362),
        ("Tesla T4", 65),
        ("Tesla V100-SXM2-32GB", 125),
        ("Tesla V100-PCIE-16GB", 112),
        ("Tesla V100S-PCIE-32GB", 130),
        ("Tesla P100-PCIE-16GB", 18.7),
        ("NVIDIA RTX 6000 Ada Generation", 364),
    ],
)
def test_names_as_the_driver_gives_them(name: str, teraflops: float) -> None:
    assert model_peak(Gpu("GPU-0", name)) == teraflops * 1e12


@pytest.mark.parametrize(
    ("name", "capability", "multiprocessors", "clock_hz"),
    [
        ("NVIDIA B200", (10, 0), 148, 1.85e9),
        ("NVIDIA H100 80GB HBM3", (9, 0), 132, 1.83e9),
        ("NVIDIA A100-SXM4-40GB", (8, 0), 108, 1.41e9),
        ("NVIDIA L40S", (8, 9), 142, 2.52e9),
        ("NVIDIA A40", (8, 6), 84, 1.74e9),
        ("Tesla T4", (7, 5), 40, 1.59e9),
        ("Tesla V100-SXM2-16GB", (7, 0), 80, 1.53e9),
    ],
)
def test_the_table_agrees_with_the_peaks_by_capability(
    name: str, capability: tuple[int, int], multiprocessors: int, clock_hz: float
) -> None:
    gpu = Gpu("GPU-0", name, multiprocessors=multiprocessors)
    by_capability = peak(capability, multiprocessors, clock_hz, Pipe.TENSOR)
    assert model_peak(gpu) == pytest.approx(by_capability, rel=0.03)


def test_a_gpu_instance_has_its_part_of_the_multiprocessors() -> None:
    whole = model_peak(Gpu("GPU-0", "NVIDIA A100-SXM4-40GB", multiprocessors=108))
    part = model_peak(Gpu("GPU-0/gi1", "NVIDIA A100-SXM4-40GB", multiprocessors=27))
    assert (whole, part) == (312e12, 78e12)


def test_a_name_that_the_table_lacks() -> None:
    by_capability = model_peak(Gpu("GPU-0", "NVIDIA A10G", (8, 6), 80, 1.71e9))
    assert by_capability == peak((8, 6), 80, 1.71e9, Pipe.TENSOR)
    assert model_peak(Gpu("GPU-0", "NVIDIA A10G")) is None
    assert model_peak(Gpu("GPU-0")) is None


@given(st.text(), st.none() | st.floats(0.01, 1e6))
def test_no_name_gives_more_than_the_largest(name: str, multiprocessors: float | None) -> None:
    found = model_peak(Gpu("GPU-0", name, multiprocessors=multiprocessors))
    assert found is None or 0 < found <= max(flop_per_s for _, flop_per_s, _ in MODELS)
