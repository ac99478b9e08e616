"""One builder for all C: the same bytes everywhere, only when needed, honest when it fails."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from hostcc.system.cc import Artifact, BuildError, build, report, shared_library

pytestmark = [pytest.mark.unit, pytest.mark.slow]

ANSWER = '#include "answer.h"\nint answer(void) { return ANSWER; }\n'
WHERE = "int answer(void);\nconst char *where(void) { return answer() ? __FILE__ : 0; }\n"


def library_at(folder: Path) -> Artifact:
    """A library of two folders whose code has the name of a source in it."""
    (folder / "a").mkdir(parents=True)
    (folder / "b").mkdir()
    (folder / "h").mkdir()
    (folder / "a" / "where.c").write_text(WHERE)
    (folder / "b" / "answer.c").write_text(ANSWER)
    (folder / "h" / "answer.h").write_text("#define ANSWER 42\n")
    return shared_library(
        folder / "made" / "x.so",
        (folder / "a" / "where.c", folder / "b" / "answer.c"),
        exports=("where",),
        header_folders=(folder / "h",),
    )


def test_the_same_bytes_wherever_the_sources_lie(tmp_path: Path) -> None:
    first, second = library_at(tmp_path / "one"), library_at(tmp_path / "other" / "deeper")
    assert build(first)
    assert build(second)
    assert first.target.read_bytes() == second.target.read_bytes()
    assert [path.name for path in first.target.parent.iterdir()] == ["x.so"]


def test_only_exports_are_visible(tmp_path: Path) -> None:
    library = library_at(tmp_path)
    build(library)
    loaded = ctypes.CDLL(str(library.target))
    assert hasattr(loaded, "where")
    assert not hasattr(loaded, "answer")


def test_compiled_again_when_anything_has_changed(tmp_path: Path) -> None:
    library = library_at(tmp_path)
    build(library)
    assert not build(library)
    assert build(library, force=True)
    (tmp_path / "h" / "answer.h").write_text("#define ANSWER 43\n")
    assert build(library)
    (tmp_path / "b" / "answer.c").write_text(ANSWER + "\n")
    assert build(library)
    assert build(replace(library, exports=("where", "answer")))
    assert build(replace(library, flags=(*library.flags, "-DMORE")))


def test_warnings_are_errors_on_demand(tmp_path: Path) -> None:
    library = library_at(tmp_path)
    (tmp_path / "b" / "answer.c").write_text("int answer(int unused) { return 1; }\n")
    with pytest.raises(BuildError, match="unused"):
        build(library, werror=True)
    assert build(library)


def test_a_program_with_a_seal_runs(tmp_path: Path) -> None:
    source = tmp_path / "seven.c"
    source.write_text("int main(void) { return 7; }\n")
    program = Artifact(tmp_path / "seven", (source,), ("-O2",))
    assert build(program)
    assert subprocess.run([program.target], check=False).returncode == 7


def test_the_first_compiler_that_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = shutil.which

    def which(name: str) -> str | None:
        asked.append(name)
        return real("gcc") if name == "third" else None

    monkeypatch.setattr("shutil.which", which)
    library = replace(library_at(tmp_path), compilers=("first", "second", "third"))
    assert build(library)
    assert asked == ["first", "second", "third"]
    with pytest.raises(BuildError, match="first or second not found; install the package gcc"):
        build(replace(library, compilers=("first", "second")))


def test_a_command_says_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> list[tuple[Path, str]]:
        raise BuildError("no such tool")

    assert report("some.build", lambda: [(Path("x.so"), "built")]) == 0
    assert report("some.build", fails) == 1
    said = capsys.readouterr()
    assert said.out == "x.so: built\n"
    assert said.err == "some.build: no such tool\n"
