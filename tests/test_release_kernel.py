"""What is released: the same wheel from the same sources, and what it is made of."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hostcc.errors import Exit
from tools.packages.wheel import FILES
from tools.sbom import pinned

pytestmark = pytest.mark.kernel
TOP = Path(__file__).parents[1]
LATER_S = 86_400 * 400


def built(tree: Path, umask: int, older_s: float) -> Path:
    """A wheel of a copy of the sources at `tree`, made with another umask, at another time."""
    before = os.umask(umask)
    try:
        tree.mkdir(parents=True)
        for name in FILES:
            shutil.copyfile(TOP / name, tree / name)
        shutil.copytree(TOP / "LICENSES", tree / "LICENSES", copy_function=shutil.copyfile)
        ignored = shutil.ignore_patterns("*.bpf.o", "*.so", "__pycache__")
        for name in ("hostcc", "benchmarks", "tools"):
            shutil.copytree(TOP / name, tree / name, ignore=ignored, copy_function=shutil.copyfile)
        for path in tree.rglob("*"):
            when = path.stat().st_mtime - older_s
            os.utime(path, (when, when))
        env = {key: value for key, value in os.environ.items() if key != "SOURCE_DATE_EPOCH"}
        done = subprocess.run(
            [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation",
             "--no-index", "--wheel-dir", str(tree / "out"), str(tree)],
            env=env, capture_output=True, text=True, check=False,
        )  # fmt: skip
    finally:
        os.umask(before)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (tree / "out").glob("hostcc-*.whl")
    return wheel


def contents(wheel: Path) -> dict[str, tuple[str, object, int]]:
    """Name -> digest, time and mode of what is in it."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            one.filename: (
                hashlib.sha256(archive.read(one)).hexdigest(), one.date_time, one.external_attr
            )
            for one in archive.infolist()
        }  # fmt: skip


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("wheels")
    return built(folder / "a", 0o022, 0.0), built(folder / "of/another/depth", 0o077, LATER_S)


def test_built_twice_it_is_the_same_to_the_byte(wheels: tuple[Path, Path]) -> None:
    """In other folders, at other times, with another umask."""
    one, other = map(contents, wheels)
    assert {name for name in one | other if one.get(name) != other.get(name)} == set()
    assert wheels[0].name == wheels[1].name
    tag = f"-py3-none-manylinux_2_28_{platform.machine()}.whl"
    assert wheels[0].name.endswith(tag)
    assert wheels[0].read_bytes() == wheels[1].read_bytes()


def test_a_wheel_has_no_measurements_and_says_where_they_are(
    wheels: tuple[Path, Path], tmp_path: Path
) -> None:
    assert {Path(name).parts[0].partition("-")[0] for name in contents(wheels[0])} == {"hostcc"}
    with zipfile.ZipFile(wheels[0]) as archive:
        archive.extractall(tmp_path)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "hostcc", "bench", "golden", "--runs", "1"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)}, cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == Exit.FAILED
    assert "the measurements come with the source" in done.stderr


def test_a_wheel_says_what_it_is_made_of(wheels: tuple[Path, Path]) -> None:
    """Packages at the versions it was tested with, and the content of what was compiled."""
    with zipfile.ZipFile(wheels[0]) as archive:
        (name,) = [
            one for one in archive.namelist() if one.endswith(".dist-info/sboms/hostcc.cdx.json")
        ]
        document = json.loads(archive.read(name))
        compiled = {
            one: hashlib.sha256(archive.read(one)).hexdigest()
            for one in archive.namelist()
            if one.endswith((".bpf.o", ".so"))
        }
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    components = document["components"]
    files = {
        one["name"]: one["hashes"][0]["content"] for one in components if one["type"] == "file"
    }
    assert files == compiled
    assert compiled
    versions = pinned((TOP / "constraints.txt").read_text())
    packages = {one["name"]: one["version"] for one in components if "purl" in one}
    assert packages == {name: versions[name] for name in packages}
    assert {"numpy", "msgspec", "pynacl", "cffi"} <= set(packages)
    refs = {one["bom-ref"] for one in components} | {document["metadata"]["component"]["bom-ref"]}
    assert {
        ref for one in document["dependencies"] for ref in (one["ref"], *one["dependsOn"])
    } <= refs


def test_another_package_of_the_same_name_is_not_installed(tmp_path: Path) -> None:
    """As set-up installs: by content, wherever the file comes from."""
    name, version = "iniconfig", pinned((TOP / "constraints.txt").read_text())["iniconfig"]
    forged = tmp_path / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(forged, "w") as archive:
        archive.writestr(f"{name}.py", "raise SystemExit('ours now')\n")
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    env = {key: value for key, value in os.environ.items() if not key.startswith("PIP_")}
    lines = (TOP / "constraints.txt").read_text().replace("\\\n", "").splitlines()
    (wanted,) = [line for line in lines if line.startswith(f"{name}==")]
    (tmp_path / "only.txt").write_text(wanted + "\n")
    words = [
        sys.executable, "-m", "pip", "--isolated", "install", "--no-deps", "--no-index",
        "--find-links", str(tmp_path), "--target", str(tmp_path / "there"),
    ]  # fmt: skip
    done = subprocess.run(
        [*words, "--require-hashes", "-r", str(tmp_path / "only.txt")],
        env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert not (tmp_path / "there" / f"{name}.py").exists()
    setup = (TOP / "tools/setup").read_text()
    installs = [line for line in setup.splitlines() if "$pip install" in line]
    assert all(
        "--require-hashes" in line or "--no-index" in line or "torch==" in line for line in installs
    )
