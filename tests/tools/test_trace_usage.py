"""What a person sees of the tracing scripts before anything is traced."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hostcc.client import SOCKET_VARIABLE
from tests.tools.tracer import TOOLS

pytestmark = pytest.mark.slow

SCRIPTS = ("trace-flows", "trace-iterations", "trace-qdisc", "trace-windows")
DOC = (TOOLS.parent / "docs/tracing.md").read_text()


def call(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(TOOLS / name), *words], capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.unit
def test_every_script_is_known() -> None:
    assert tuple(sorted(path.name for path in TOOLS.glob("trace-*"))) == SCRIPTS


@pytest.mark.unit
@pytest.mark.parametrize("name", SCRIPTS)
def test_help_has_an_example_and_the_page_every_option(name: str) -> None:
    done = call(name, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"example:\n  tools/{name} " in done.stdout
    options = {word.strip(",[]") for word in done.stdout.split() if word.startswith(("--", "[--"))}
    assert {"--duration", "--count", "--json"} < options
    section = DOC.partition(f"## {name}")[2].partition("\n## trace-")[0]
    common = DOC.partition("## Options")[2].partition("\n## ")[0]
    for option in options - {"--help"}:
        assert f"`{option}" in section or f"`{option}" in common, option
    assert f"tools/{name} " in section


@pytest.mark.unit
def test_the_page_names_the_variable_with_the_socket() -> None:
    common = DOC.partition("## Options")[2].partition("\n## ")[0]
    assert f"`{SOCKET_VARIABLE}`" in common


@pytest.mark.unit
@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("words", [("--duration", "0"), ("--count", "x"), ("--nonsense",)])
def test_wrong_usage(name: str, words: tuple[str, ...]) -> None:
    done = call(name, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith(f"{name}: error: ")


@pytest.mark.kernel
@pytest.mark.parametrize("name", ["trace-iterations", "trace-windows"])
def test_no_agent_and_no_jobs(name: str, tmp_path: Path) -> None:
    done = call(name, "--socket", str(tmp_path / "none"))
    assert (done.returncode, done.stdout) == (3, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{name}: no agent at {tmp_path}/none")
    assert "--port" in line


@pytest.mark.kernel
def test_flows_go_on_without_an_agent(tmp_path: Path) -> None:
    done = call("trace-flows", "--socket", str(tmp_path / "none"), "--duration", "0.1")
    assert done.returncode == 0
    assert "going on with the jobs known so far" in done.stderr


@pytest.mark.kernel
def test_headers_that_are_not_there(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(TOOLS / "trace-qdisc"), "--duration", "1"],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "BCC_KERNEL_SOURCE": str(tmp_path / "none")},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("trace-qdisc: ")
    assert "Traceback" not in done.stderr
