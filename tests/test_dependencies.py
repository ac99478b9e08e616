"""What is promised to be installed is used, and what is used is promised."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

TOP = Path(__file__).parent.parent
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
CONSTRAINTS = (TOP / "constraints.txt").read_text().splitlines()
IMPORTED_AS = {"pyzmq": "zmq", "pynacl": "nacl", "nvidia-ml-py": "pynvml"}
BY_THE_SYSTEM = {"bcc", "pyverbs"}
"""Debian packages: those of these names on PyPI are others."""


def modules(requirements: list[str]) -> set[str]:
    """What requirements are imported as."""
    names = [re.split(r"[<>=!~\[; ]", one)[0] for one in requirements]
    return {IMPORTED_AS.get(name, name).replace("-", "_") for name in names}


def imported(folder: str) -> set[str]:
    """Top-level modules that a folder's files import, by name too (importlib)."""
    found: set[str] = set()
    for file in (TOP / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Import(names=names):
                    found.update(name.name.partition(".")[0] for name in names)
                case ast.ImportFrom(module=str(module)):
                    found.add(module.partition(".")[0])
                case ast.Call(
                    func=ast.Attribute(attr="import_module"),
                    args=[ast.Constant(value=str(module))],
                ):
                    found.add(module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"hostcc", "tests"}


def test_the_product_imports_what_it_requires_and_nothing_else() -> None:
    required = modules(PROJECT["dependencies"])
    optional = PROJECT["optional-dependencies"]
    found = imported("hostcc")
    assert required <= found
    assert found <= required | set().union(*map(modules, optional.values())) | BY_THE_SYSTEM


def test_every_requirement_is_pinned() -> None:
    pinned = {line.partition("==")[0].lower() for line in CONSTRAINTS if "==" in line}
    for requirements in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()):
        for one in requirements:
            assert re.split(r"[<>=!~\[; ]", one)[0].lower() in pinned, one
