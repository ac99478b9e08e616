"""The documentation names what there is."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from hostcc.answers import flows, gossip, history, host, jobs, links, plan, status, view
from hostcc.cli import (
    agent,
    authority,
    cluster,
    diagnosis,
    dryrun,
    keys,
    pcie,
    probe,
    rank,
    rank_live,
)
from hostcc.cli.main import COMMANDS, build_parser
from hostcc.config.load import load
from hostcc.config.schema import Config
from hostcc.config.sections.agent import AgentConfig
from hostcc.config.sections.discover import DiscoverConfig, ProcessConfig, UnitConfig
from hostcc.config.sections.egress import EgressConfig
from hostcc.config.sections.gossip import GossipConfig
from hostcc.config.sections.job import JobConfig
from hostcc.config.sections.marking import MarkingConfig
from hostcc.config.sections.measure import GpuConfig, MarksConfig, MeasureConfig
from hostcc.config.sections.mltcp import MltcpConfig
from hostcc.config.sections.paths import PathsConfig
from hostcc.config.sections.pcie import PcieConfig
from hostcc.config.sections.plan import PlanConfig
from hostcc.config.sections.rdma import RdmaConfig
from hostcc.config.sections.shifts import ShiftsConfig
from hostcc.config.sections.users import UsersConfig
from hostcc.daemon.api.messages import OPERATIONS
from hostcc.daemon.changes import kinds as changes
from hostcc.daemon.changes import path_kinds as paths
from hostcc.errors import Exit
from hostcc.mltcp import dcqcn
from hostcc.paths import egress_queues

TOP = Path(__file__).parent.parent
CONTROL = (TOP / "docs/control.md").read_text()
CONFIG = (TOP / "docs/config.md").read_text()
MAN = (TOP / "docs/man/hostcc.1").read_text()
SECTIONS = (
    AgentConfig,
    UsersConfig,
    MltcpConfig,
    MeasureConfig,
    DiscoverConfig,
    GpuConfig,
    MarksConfig,
    GossipConfig,
    PlanConfig,
    MarkingConfig,
    EgressConfig,
    PathsConfig,
    RdmaConfig,
    PcieConfig,
    ShiftsConfig,
)


def defaults(kind: type[msgspec.Struct]) -> dict[str, object]:
    return {
        field.name: field.default
        for field in msgspec.structs.fields(kind)
        if field.default is not msgspec.NODEFAULT
    }


def test_no_section_is_forgotten() -> None:
    fields = msgspec.structs.fields(Config)
    kinds = {type(getattr(Config(), field.name)) for field in fields}
    assert {kind for kind in kinds if issubclass(kind, msgspec.Struct)} == set(SECTIONS)


def test_every_key_with_its_default() -> None:
    for kind in SECTIONS:
        for key, value in defaults(kind).items():
            shown = msgspec.json.encode(list(value) if isinstance(value, tuple) else value)
            assert f"| `{key}` | `{shown.decode()}` |" in CONFIG, key
    for part in (JobConfig, UnitConfig, ProcessConfig):
        for field in msgspec.structs.fields(part):
            assert f"`{field.name}`" in CONFIG


def test_the_packaged_file_holds_every_default() -> None:
    path = TOP / "packaging/hostcc.toml"
    assert load(path) == Config()
    text = path.read_text()
    for kind in SECTIONS:
        for key in defaults(kind):
            assert re.search(rf"^{key} = ", text, re.MULTILINE), key


def test_every_operation_schema_and_change() -> None:
    for op in OPERATIONS:
        assert f"| `{op}` |" in CONTROL
    schemas = {
        value
        for module in (flows, gossip, history, host, jobs, links, plan, status, view)
        for value in vars(module).values()
        if re.fullmatch(r"hostcc\.[a-z-]+/\d+", str(value))
    }
    assert len(schemas) == 18
    for schema in {*map(str, schemas), diagnosis.SCHEMA, dryrun.SCHEMA}:
        assert schema in CONTROL
    assert agent.SCHEMA in CONFIG
    pages = (
        (keys, "keys"),
        (authority, "keys"),
        (cluster, "keys"),
        (pcie, "pcie"),
        (probe, "paths"),
        (rank, "cassini"),
        (rank_live, "cassini"),
    )
    for command, page in pages:
        (found,) = (TOP / "docs").rglob(f"{page}.md")
        assert f"`{command.SCHEMA}`" in found.read_text()
    kinds = (
        changes.GROUP,
        changes.MEMBER,
        changes.SOCKETS,
        changes.CA,
        changes.RULES,
        changes.FOLLOWED,
        changes.REQUEST,
        changes.RDMA,
        changes.RDMA_PLAN,
        changes.RDMA_JOB,
        changes.SEMAPHORES,
        dcqcn.KIND,
    )
    for kind in (
        *kinds,
        changes.BASE,
        changes.MODE,
        paths.HOOKS,
        paths.PORTS,
        paths.MARKS,
        egress_queues.QUEUES,
    ):
        assert re.search(rf"^\| `{kind}[:`]", CONTROL, re.MULTILINE), kind


def options(parser: argparse.ArgumentParser) -> set[str]:
    """The long options of a command and of the commands below it."""
    found: set[str] = set()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                found |= options(below)
        found.update(word for word in action.option_strings if word.startswith("--"))
    return found - {"--help", "--version"}


def test_the_synopsis_has_every_command() -> None:
    synopsis = MAN.partition(".SH SYNOPSIS\n")[2].partition(".SH DESCRIPTION")[0]
    usages: dict[str, str] = {}
    for usage in synopsis.replace("\\-", "-").split(".br\n"):
        name = usage.split()[2]
        usages[name] = usages.get(name, "") + usage
    assert usages.keys() == set(COMMANDS)
    for name, usage in usages.items():
        if name in {"lab", "bench"}:  # "OPTION ..."; docs/benchmarks.md
            continue
        missing = [
            option
            for option in options(build_parser(name)) - {"--socket", "--json"}
            if not re.search(rf"{option}\b", usage)
        ]
        assert missing == [], name


def test_the_manual_page() -> None:
    for command in COMMANDS:
        assert re.search(rf"^\.B {command}$", MAN, re.MULTILINE), command
        if command != "bench":  # whose page is docs/benchmarks.md
            for option in options(build_parser(command)):
                assert option.replace("-", "\\-") in MAN, f"{command} {option}"
    if shutil.which("groff"):
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww", "-z"],
            input=MAN,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert done.stderr == ""


def test_the_unit_starts_what_there_is() -> None:
    unit = (TOP / "packaging/hostcc.service").read_text()
    assert "ExecStart=/usr/bin/hostcc agent --config /etc/hostcc/hostcc.toml" in unit
    assert "WatchdogSec=" in unit
    after = re.findall(r"^ExecStopPost=-/usr/bin/hostcc (\w+) (--\w+)$", unit, re.MULTILINE)
    assert [option in options(build_parser(name)) for name, option in after] == [True]
    prevented = re.search(r"^RestartPreventExitStatus=(.*)$", unit, re.MULTILINE)
    assert prevented is not None
    assert {int(word) for word in prevented[1].split()} == {Exit.BAD_INPUT, Exit.CONFIGURATION}
    assert "ExecReload=/usr/bin/hostcc agent --check --config /etc/hostcc/hostcc.toml" in unit
    # Of an ExecStartPre systemd would not heed the status, and start again for ever.
    assert not re.search(r"^ExecStartPre=", unit, re.MULTILINE)
    listed = re.search(r"^CapabilityBoundingSet=(.*)$", unit, re.MULTILINE)
    assert listed is not None
    named = {
        name
        for file in (TOP / "hostcc").rglob("*.py")
        for name in re.findall(r"\bCAP_[A-Z]+(?:_[A-Z]+)*\b", file.read_text())
    }
    assert "CAP_NET_RAW" in named  # probes of paths
    assert named <= {"CAP_BPF", *listed[1].split()}  # CAP_SYS_ADMIN includes CAP_BPF


def anchors(page: Path) -> set[str]:
    """What can follow # in a link to a page: its headings, as they are addressed."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE):
        found.add(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))
    return found


PAGES = [*TOP.glob("*.md"), *TOP.glob("docs/**/*.md")]
ANNOTATION = "hostcc/weight"
"""Of a pod; looks like a file."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_what_a_page_names_is_there(page: Path) -> None:
    text = page.read_text()
    for link in re.findall(r"\]\(([^)]+)\)", text):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link
    for path in re.findall(r"(?<![\w/.-])((?:hostcc|tests|docs|tools)/[\w./*-]*[\w*])", text):
        assert path == ANNOTATION or any(TOP.glob(path)), path
    for test in re.findall(r"(?<!::)\btest_\w+", text):  # of PATH::NAME see test_security
        assert any(TOP.glob(f"tests/**/*{test.removeprefix('test')}.py")), test


def test_the_index_has_every_page_and_pages_have_every_figure() -> None:
    index = (TOP / "docs/README.md").read_text()
    for page in TOP.glob("docs/**/*.md"):
        name = page.relative_to(TOP / "docs")
        assert page.name == "README.md" or f"]({name})" in index, page.name
    shown = "".join(page.read_text() for page in PAGES)
    for figure in TOP.glob("docs/figures/*"):
        assert f"figures/{figure.name}" in shown, figure.name


def test_commands_of_the_page_on_rdma_name_tests_that_exist() -> None:
    text = (TOP / "docs/rdma-status.md").read_text()
    named = set(re.findall(r"\btests(?:/[a-z0-9_]+)+(?:\.py)?", text))
    assert len(named) > 10
    assert [one for one in sorted(named) if not (TOP / one).exists()] == []
