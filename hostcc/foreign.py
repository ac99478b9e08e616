"""Text from others on its way to a person: names of processes and devices, what members say.

Control characters move a terminal's cursor and write its title, bidirectional ones turn a line
round, a line end makes another line of ours.  `errors.one_line` writes all of them as escapes;
here it is put to use for every form of output.
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
    """The same of text that has several lines of ours."""
    return text if text.isprintable() else "\n".join(map(one_line, text.split("\n")))


def tree(value: Any) -> Any:
    """The same of every text in an answer."""
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, Mapping):
        return {tree(key): tree(item) for key, item in value.items()}
    return [tree(item) for item in value] if isinstance(value, list | tuple) else value


def encoded(value: Any) -> bytes:
    """`value` as JSON; where a name is no Unicode, as a cgroup's may be, as it is shown."""
    import msgspec

    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(tree(msgspec.to_builtins(value)))


def in_json(document: str) -> str:
    """A JSON document that says the same, in which nothing is left that a terminal obeys."""
    return _ESCAPED.sub(_json_escape, document)


def in_html(text: str) -> str:
    """The same as the content of an element or of a quoted attribute."""
    import html

    return html.escape(one_line(text))


def say(
    text: object = "", *, file: IO[str] | None = None, end: str = "\n", flush: bool = False
) -> None:
    """Print it; what others have put into it does nothing to a terminal."""
    print(lines(str(text)), file=file or sys.stdout, end=end, flush=flush)


def _json_escape(found: re.Match[str]) -> str:
    character = found[0]
    return character if character.isprintable() else json.dumps(character)[1:-1]
