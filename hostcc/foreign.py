"""Escapes text from others before a person sees it: names of processes, devices and members.

Control characters can move a terminal's cursor and set its title, bidirectional ones reverse a
line, and a line end fakes a line of hostcc's own. `errors.one_line` escapes all of them; this
module applies it to every form of output.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import IO, Any

from hostcc.errors import one_line

_ESCAPED = re.compile(r"[^ -~\n]")


def lines(text: str) -> str:
    """Escape text that may consist of several lines."""
    return text if text.isprintable() else "\n".join(map(one_line, text.split("\n")))


def tree(value: Any) -> Any:
    """Escape every text in an answer, recursively."""
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, Mapping):
        return {tree(key): tree(item) for key, item in value.items()}
    return [tree(item) for item in value] if isinstance(value, list | tuple) else value


def encoded(value: Any) -> bytes:
    """Return `value` as JSON; names that are not Unicode, as a cgroup's may be, are escaped."""
    import msgspec

    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(tree(msgspec.to_builtins(value)))


def in_json(document: str) -> str:
    """Return an equivalent JSON document without characters that a terminal would act on."""
    return _ESCAPED.sub(_json_escape, document)


def in_html(text: str) -> str:
    """Escape text for the content of an HTML element or a quoted attribute."""
    import html

    return html.escape(one_line(text))


def say(
    text: object = "", *, file: IO[str] | None = None, end: str = "\n", flush: bool = False
) -> None:
    """Print text, with everything escaped that a terminal would act on."""
    print(lines(str(text)), file=file or sys.stdout, end=end, flush=flush)


def _json_escape(found: re.Match[str]) -> str:
    character = found[0]
    return character if character.isprintable() else json.dumps(character)[1:-1]
