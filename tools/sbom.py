"""What a wheel is made of: a CycloneDX document, which goes into its `.dist-info/sboms` (PEP 770).

Used by the wheel build; imports nothing but the standard library.  It depends on the sources
alone, not on the time or on what is installed.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BUILT = ("*.bpf.o", "*.so")
"""Files that are compiled: their contents are named."""
NEEDS = {
    "cffi": ("pycparser",),
    "markdown-it-py": ("mdurl",),
    "pynacl": ("cffi",),
    "rich": ("markdown-it-py", "pygments"),
}
"""What requirements of ours require in turn; a test compares it with what is installed."""
OF_THE_HOST = {
    "libbpf": ("required", "1.1 or newer, found when an agent starts"),
    "libibverbs": ("optional", "for jobs that use RDMA"),
}


def normal(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(constraints: str) -> dict[str, str]:
    """Package -> version, of a file of constraints."""
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^\s\\]+)", constraints, re.MULTILINE)
    return {normal(name): version for name, version in found}


def document(sources: Path, built: Path) -> bytes:
    """The document for the wheel that is made of `sources` and has the files below `built`."""
    project = _project(sources)
    versions = pinned((sources / "constraints.txt").read_text())
    direct = _direct(project)
    packages = _closure(direct)
    own = f"pkg:pypi/{project['name']}@{project['version']}"
    refs = {name: f"pkg:pypi/{name}@{versions[name]}" for name in packages}
    depends = {own: [*(refs[name] for name in direct), *OF_THE_HOST]}
    depends |= {refs[name]: [refs[one] for one in NEEDS.get(name, ())] for name in packages}
    whole = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": project["name"],
                "version": project["version"],
                "purl": own,
                "licenses": [{"expression": project["license"]}],
            }
        },
        "components": [
            *(_package(name, versions[name], refs[name]) for name in packages),
            *(
                {"type": "library", "bom-ref": name, "name": name, "scope": scope,
                 "description": f"Of the host: {words}"}
                for name, (scope, words) in OF_THE_HOST.items()
            ),
            *_files(built),
        ],
        "dependencies": [
            {"ref": ref, "dependsOn": sorted(needs)} for ref, needs in sorted(depends.items())
        ],
    }  # fmt: skip
    return json.dumps(whole, indent=1, sort_keys=True).encode() + b"\n"


def needed(sources: Path) -> list[str]:
    """Packages that hostcc needs, and what these need in turn."""
    return _closure(_direct(_project(sources)))


def _project(sources: Path) -> Mapping[str, Any]:
    found: Mapping[str, Any] = tomllib.loads((sources / "pyproject.toml").read_text())["project"]
    return found


def _direct(project: Mapping[str, Any]) -> list[str]:
    return [normal(re.split(r"[<>=!~\[; ]", one, maxsplit=1)[0]) for one in project["dependencies"]]


def _closure(direct: list[str]) -> list[str]:
    found = list(direct)
    for name in found:  # grows while it is walked
        found += [one for one in NEEDS.get(name, ()) if one not in found]
    return sorted(found)


def _package(name: str, version: str, ref: str) -> Mapping[str, Any]:
    """Tested with this version; newer ones are allowed."""
    return {
        "type": "library",
        "bom-ref": ref,
        "name": name,
        "version": version,
        "purl": ref,
        "scope": "required",
    }


def _files(built: Path) -> list[Mapping[str, Any]]:
    paths = sorted(path for kind in BUILT for path in built.rglob(kind))
    return [
        {
            "type": "file",
            "bom-ref": f"file:{path.relative_to(built).as_posix()}",
            "name": path.relative_to(built).as_posix(),
            "hashes": [
                {"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}
            ],
        }
        for path in paths
    ]
