"""Pictures of a job."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hostcc.errors import HostccError
from hostcc.measure.measured_profile import assemble
from hostcc.measure.period import detect
from hostcc.measure.plot import draw
from hostcc.measure.series import ByteSeries, series
from tests.measure.jobs import MS, regular

pytestmark = [pytest.mark.unit, pytest.mark.slow]


@pytest.mark.parametrize(
    "made", [regular(50, 14), series(np.full(300, 5), None, MS)], ids=["periodic", "steady"]
)
@pytest.mark.parametrize("kind", ["png", "svg"])
def test_a_picture(made: ByteSeries, kind: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="no matplotlib")
    path = tmp_path / f"a.{kind}"
    assert draw(made, assemble("train", made, detect(made)), path) == path
    assert path.stat().st_size > 1000


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="no matplotlib")
    made = regular(50, 14)
    profile = assemble("train", made, detect(made))
    with pytest.raises(HostccError, match="No such file"):
        draw(made, profile, tmp_path / "none" / "a.png")
    with pytest.raises(HostccError, match="not supported"):
        draw(made, profile, tmp_path / "a.nonsense")
