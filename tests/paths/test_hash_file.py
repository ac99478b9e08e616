"""The switches' functions as a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostcc.errors import InputError
from hostcc.paths.hash_file import read
from hostcc.paths.packets import Target

pytestmark = pytest.mark.unit

GOOD = """
[[fabric]]
src = "198.18.0.0/24"
dst = "198.18.1.0/24"
[[fabric.stage]]
function = "crc32"
ways = [["leaf1>spine1", "spine1>leaf2"], ["leaf1>spine2", "spine2>leaf2"]]
"""


def write(folder: Path, text: str) -> Path:
    file = folder / "hash.toml"
    file.write_text(text)
    return file


def test_paths_with_ports_of_sockets_and_of_the_wire(tmp_path: Path) -> None:
    source = read(write(tmp_path, GOOD), range(61000, 61100))
    table = source.table(Target("198.18.0.2", "198.18.1.2", 6, 5301))
    assert table is not None
    assert [path.links[0] for path in table.paths] == ["198.18.0.2>"] * 2
    assert {path.links[1] for path in table.paths} == {"leaf1>spine1", "leaf1>spine2"}
    assert all(path.links[-1] == ">198.18.1.2" for path in table.paths)
    known = sorted(port for path in table.paths for port in path.ports)
    assert known == [*range(32768, 61100)]
    assert source.table(Target("198.18.9.2", "198.18.1.2", 6, 5301)) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[[fabric]]", "src"),
        (GOOD.replace("crc32", "md5"), "function: expected one of"),
        (GOOD.replace("198.18.0.0/24", "nowhere"), "address or network"),
        (GOOD.replace("function", "functions"), "functions"),
        ("x =", "expected TOML"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(InputError, match=expected) as error:
        read(write(tmp_path, text), range(61000, 61100))
    assert "hash.toml" in str(error.value)
    assert "\n" not in str(error.value)
