"""Text from others: nothing of it is obeyed by a terminal, a log or a browser; all of it shows."""

from __future__ import annotations

import ast
import html
import io
import json
import logging
import re
import unicodedata
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

from hostcc.cli import rank, viewfile
from hostcc.cli.common import console, table
from hostcc.config.schema import Config
from hostcc.coord.core import payloads
from hostcc.coord.core.message import Message
from hostcc.coord.keys import identity
from hostcc.daemon.api import messages
from hostcc.daemon.changes.journal import Journal
from hostcc.daemon.jobs.released import KeptJob
from hostcc.errors import HostccError, one_line
from hostcc.foreign import in_html, in_json, lines, say, tree
from hostcc.lab.scenario import Scenario
from hostcc.limits import VISIBLE
from hostcc.log import JsonFormatter, TextFormatter
from hostcc.measure.series_file import Meta
from hostcc.model import Change
from hostcc.paths import hash_file, sources, steering_messages, telemetry

pytestmark = pytest.mark.unit
PRODUCT = Path(__file__).parents[1] / "hostcc"
NASTY = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202etxt.exe\u2066\r\nroot# \x7f\u2028\u200b"
TEXT = st.text(st.characters()) | st.sampled_from([NASTY, "[bold]x[/]", "\ud800", "ordinary"])
OBEYED = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Categories of characters that do something instead of being seen."""


def harmless(text: str) -> bool:
    return not any(unicodedata.category(character) in OBEYED for character in text)


@given(TEXT)
def test_one_line_is_harmless_and_says_the_same_twice(text: str) -> None:
    shown = one_line(text)
    assert harmless(shown)
    assert one_line(shown) == shown
    assert shown == text or not harmless(text) or not text.isprintable()
    shown.encode()


@given(TEXT)
def test_lines_keep_their_ends_and_nothing_else(text: str) -> None:
    shown = lines(text)
    assert shown.count("\n") == text.count("\n")
    assert all(map(harmless, shown.split("\n")))


@given(st.recursive(TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner)))
def test_json_says_the_same(value: object) -> None:
    for indent in (None, 2):
        encoded = in_json(json.dumps(value, indent=indent, ensure_ascii=False))
        assert all(map(harmless, encoded.split("\n")))
        assert json.loads(encoded) == json.loads(json.dumps(value))


@given(TEXT)
def test_html_is_text(text: str) -> None:
    shown = in_html(text)
    assert not set(shown) & set("<>\"'")
    assert html.unescape(shown) == one_line(text)


@given(st.dictionaries(TEXT, st.lists(TEXT), max_size=3))
def test_a_tree_is_harmless(value: dict[str, list[str]]) -> None:
    for key, items in tree(value).items():
        assert harmless(key)
        assert all(map(harmless, items))


@given(TEXT)
def test_tables_and_what_is_said(text: str) -> None:
    screen = console(io.StringIO(), 400)
    screen.print(table([("Member", "left")], [(text,)]))
    assert isinstance(screen.file, io.StringIO)
    assert all(map(harmless, screen.file.getvalue().split("\n")))
    file = io.StringIO()
    say(text, file=file)
    assert all(map(harmless, file.getvalue().split("\n")))


@given(TEXT)
def test_logs(text: str) -> None:
    record = logging.LogRecord("hostcc.x", logging.INFO, "", 1, "%s", (text,), None)
    record.fields = {"peer": text, text: 1}
    try:
        raise HostccError(text)
    except HostccError as error:
        record.exc_info = (type(error), error, error.__traceback__)
    for formatter in (TextFormatter(), TextFormatter(journald=True), JsonFormatter()):
        written = formatter.format(record)
        assert all(map(harmless, written.split("\n")))
    assert json.loads(JsonFormatter().format(record))["event"] is not None


def test_the_journal_can_be_looked_at(tmp_path: Path) -> None:
    """It is JSON that reads back as it was, without anything that a terminal obeys."""
    journal = Journal(tmp_path)
    journal.open()
    journal.begin(Change("id", "what", NASTY, None, {"to": NASTY}, NASTY, NASTY))
    journal.note(NASTY, NASTY)
    journal.close()
    assert all(map(harmless, journal.path.read_text().split("\n")))
    read = Journal(tmp_path)
    assert read.damaged == 0
    assert (read.active["id"].target, read.notes[0].text) == (NASTY, NASTY)


@given(st.recursive(TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner)))
def test_what_is_no_unicode_is_told_and_recorded(value: object) -> None:
    """A cgroup's name is bytes; half a surrogate stands for one that is no text."""
    answer = json.loads(messages.success(value))
    assert answer["ok"]
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        assert answer["result"] == tree(value)
    else:
        assert answer["result"] == value


def test_the_journal_takes_a_name_that_is_no_text(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.open()
    journal.begin(Change("\udcff", "what", "\udcff", None, {"to": "\udcff"}, "why", "undo"))
    journal.close()
    read = Journal(tmp_path)
    assert read.damaged == 0
    assert [change.target for change in read.active.values()] == ["\\udcff"]


def test_only_one_function_prints() -> None:
    """What prints by itself elsewhere prints nothing that comes from others."""
    own = {"foreign.py", "injob", "cc.py", "lab", "sim"}
    found = []
    for path in PRODUCT.rglob("*.py"):
        if own & set(path.relative_to(PRODUCT).parts):
            continue
        found += [
            f"{path.name}:{node.lineno}"
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "print"
        ]
    assert found == []


WIRE = [
    Message, *payloads.KINDS.values(), steering_messages.Prepare, steering_messages.Refusal,
    steering_messages.Release, *messages.OPERATIONS.values(), Config, telemetry.Report,
    sources.StaticFile, hash_file.HashFile, identity._PublicFile, identity._SecretFile,
    viewfile.ViewGiven, rank.RankInput, Meta, Scenario, KeptJob,
]  # fmt: skip


def texts(kind: object, where: str, seen: set[type]) -> list[str]:
    """Where in a type there is text without a pattern."""
    if isinstance(kind, inspect.StrType):
        return [] if kind.pattern else [where]
    if isinstance(kind, inspect.StructType):
        if kind.cls in seen:
            return []
        seen.add(kind.cls)
        inner = [(field.type, f"{where}.{field.encode_name}") for field in kind.fields]
    else:
        parts = ("type", "types", "item_type", "item_types", "key_type", "value_type")
        found = [getattr(kind, part) for part in parts if hasattr(kind, part)]
        inner = [
            (one, f"{where}[]")
            for part in found
            for one in (part if isinstance(part, tuple) else (part,))
        ]
    return [text for one, place in inner for text in texts(one, place, seen)]


@pytest.mark.parametrize("kind", WIRE, ids=lambda kind: kind.__name__)
def test_every_text_on_the_wire_has_a_pattern(kind: type) -> None:
    assert texts(inspect.type_info(kind), kind.__name__, set()) == []


class Inner(msgspec.Struct):
    names: dict[str, tuple[str, ...]]


class Outer(msgspec.Struct):
    inner: Inner | None


def test_text_without_a_pattern_would_be_found() -> None:
    assert texts(inspect.type_info(Outer), "O", set()) == [
        "O.inner[].names[]",
        "O.inner[].names[][]",
    ]


@pytest.mark.parametrize("text", list(NASTY.replace("0;owned", "").replace("root# ", "")))
def test_members_cannot_say_what_a_terminal_obeys(text: str) -> None:
    """Neither their software's version nor any name."""
    if text.isprintable():
        return
    member = payloads.Member("", 1, f"1.0{text}")
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(member), type=payloads.Member)


@given(st.characters())
def test_visible_characters_are_harmless(character: str) -> None:
    if re.fullmatch(VISIBLE, character):
        assert unicodedata.category(character) != "Cc"
        assert unicodedata.bidirectional(character) not in (
            "LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"
        )  # fmt: skip
