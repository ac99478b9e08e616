"""What is promised to be installed is used, and what is used is promised."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tools import sbom

pytestmark = pytest.mark.unit

TOP = Path(__file__).parent.parent
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
CONSTRAINTS = (TOP / "constraints.txt").read_text()
FILES = ("constraints.txt", "constraints-torch.txt", "constraints-oldest.txt")
IMPORTED_AS = {"pyzmq": "zmq", "pynacl": "nacl", "nvidia-ml-py": "pynvml"}
BY_THE_SYSTEM = {"bcc", "pyverbs"}
"""Debian packages: those of these names on PyPI are others."""
OF_THE_CHECKOUT = {"benchmarks"}
"""`hostcc bench` is a door to them; an installed hostcc has none (test_wheel)."""


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
    extras = set[str]().union(*map(modules, optional.values()))
    assert found <= required | extras | BY_THE_SYSTEM | OF_THE_CHECKOUT


def test_every_requirement_is_pinned() -> None:
    pinned = {*sbom.pinned(CONSTRAINTS), "torch"}  # which pyproject.toml itself pins
    for requirements in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()):
        for one in requirements:
            assert sbom.normal(re.split(r"[<>=!~\[; ]", one)[0]) in pinned, one


@pytest.mark.parametrize("name", FILES)
def test_what_is_pinned_is_pinned_by_content(name: str) -> None:
    """Every line is a comment, a package with hashes, or a hash."""
    text = (TOP / name).read_text()
    for line in text.replace("\\\n", "").splitlines():
        assert re.fullmatch(
            r"#.*|[A-Za-z0-9._-]+==[A-Za-z0-9.+]+( +--hash=sha256:[0-9a-f]{64})+", line
        )
    assert "://" not in text


def test_what_is_pinned_is_all_that_is_needed() -> None:
    """Set-up asks for nothing else, so nothing may be missing."""
    pinned, todo, seen = sbom.pinned(CONSTRAINTS), ["hostcc[lab,dev]"], set[str]()
    while todo:
        name, _, extras = todo.pop().partition("[")
        seen.add(name)
        wanted = {extra: {"extra": extra} for extra in extras.rstrip("]").split(",")}
        for one in map(Requirement, requires(name) or []):
            if one.marker is not None and not any(map(one.marker.evaluate, wanted.values())):
                continue
            assert sbom.normal(one.name) in pinned, f"{one} of {name}"
            if sbom.normal(one.name) not in seen:
                todo.append(f"{sbom.normal(one.name)}[{','.join(one.extras)}]")
    assert {"rich", "mdurl", "pycparser"} <= seen


def test_the_bill_of_materials_knows_what_requirements_require() -> None:
    needs = {}
    for name in sbom._closure([sbom.normal(one) for one in modules_of(PROJECT["dependencies"])]):
        needed = [
            sbom.normal(one.name)
            for one in map(Requirement, requires(name) or [])
            if one.marker is None or one.marker.evaluate({"extra": ""})
        ]
        if needed:
            needs[name] = tuple(sorted(needed))
    assert needs == sbom.NEEDS


def modules_of(requirements: list[str]) -> list[str]:
    return [Requirement(one).name for one in requirements]
