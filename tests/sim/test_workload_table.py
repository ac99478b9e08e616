"""The workload table that is shipped, and what is refused of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostcc.errors import InputError
from hostcc.sim.workload_table import DEFAULT, read

pytestmark = pytest.mark.unit


def test_the_shipped_table_has_twelve_models_and_the_published_iteration() -> None:
    table = read()
    assert len(table.models) == 12
    gpt = table.models["GPT"].size(64)
    assert gpt.comm_start_s + gpt.nic_bytes / 25e9 == pytest.approx(1.530)
    assert table.model_of("GPT-13b") == "GPT-variant"
    assert table.model_of("never seen") == table.model_of("unknown")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("nic_bytes = 2.5e+09", "nic_bytes = 0.0", "models.BERT.sizes[0].nic_bytes"),
        ("nic_bytes = 2.5e+09", "nic_bytes = nan", "models.BERT.sizes[0].nic_bytes"),
        ("compute_s = 0.3\n", "compute_s = 0.0\n", "models.BERT.sizes[0].compute_s"),
        ("comm_start_s = 0.18\n", "comm_start_s = 3.0\n", "comm_start_s: expected at most"),
        ('"assumed: traffic', '"guess: traffic', "sizes[0].source.comm_start_s"),
        ('default = "NLP"', 'default = "CNN"', "names.default"),
        ('pattern = "ring"', 'pattern = "star"', "pattern"),
    ],
)
def test_a_bad_table_is_refused_in_one_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = DEFAULT.read_text()
    assert old in text
    path = tmp_path / "w.toml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError) as refused:
        read(path)
    assert said in str(refused.value)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)
