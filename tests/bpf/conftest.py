"""The small objects under progs/, compiled once per run."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostcc.bpf.build import build_directory
from hostcc.bpf.loader.object import BpfObject

PROGS = Path(__file__).parent / "progs"
_numbers = itertools.count()


@pytest.fixture(scope="session")
def progs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of the compiled test objects."""
    target = tmp_path_factory.mktemp("progs")
    build_directory(PROGS, target, werror=True)
    return target


@pytest.fixture(scope="session")
def sample_path(progs: Path) -> Path:
    return progs / "sample.bpf.o"


def fresh_names() -> dict[str, str]:
    """Kernel names for the sample's struct_ops that no other test, or run, has."""
    number = next(_numbers)
    return {v: f"ht{os.getpid() % 100000}_{number}{v[0]}" for v in ("first", "second")}


@pytest.fixture
def opened(sample_path: Path) -> Iterator[BpfObject]:
    """The sample object, opened under names of its own, not loaded."""
    with BpfObject.open(sample_path, fresh_names()) as obj:
        yield obj


@pytest.fixture
def loaded(opened: BpfObject) -> BpfObject:
    opened.load()
    return opened
