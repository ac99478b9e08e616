"""Writes docs/answers.md out of the answers' declarations: `python -m tools.answers_page`."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import types
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from msgspec import Struct, UnsetType
from msgspec.inspect import StructType, type_info

from hostcc.answers import flows, gossip, history, host, jobs, links, parts, plan, status, view
from hostcc.answers.fields import Counter, Unit, annotations_of, metrics_of

PAGE = Path(__file__).parent.parent / "docs" / "answers.md"
ANSWERS: dict[str, tuple[type[Struct], ...]] = {
    status.STATUS: (status.Status,),
    jobs.JOBS: (jobs.Jobs, jobs.DetailedJobs),
    jobs.PROFILE: (jobs.Profile,),
    flows.FLOWS: (flows.Flows,),
    gossip.PEERS: (gossip.Peers,),
    plan.PLAN: (plan.PlanAnswer,),
    links.LINKS: (links.Links,),
    history.HISTORY: (history.History,),
    view.VIEW: (view.View,),
    host.CHANGES: (host.Changes,),
    host.VERIFY: (host.Verification,),
    host.REGISTER: (host.Registration,),
    host.JOB: (host.JobChange,),
    host.UNFAIR: (host.Sharing,),
    host.SHIFTS: (host.Shifting,),
    host.ROLLBACK: (host.Undone,),
}
"""Schema -> forms of the answer, in the order of the page."""
WORDS = {str: "text", int: "integer", float: "number", bool: "true or false", Any: "any"}
HEAD = """\
# Answers

<!-- Written by `python -m tools.answers_page`; declared in hostcc/answers. -->

What the agent answers on its [control socket](control.md), and what a command prints with `--json`.
An answer names its `schema`. Keys may be added within a version, so ignore those that you do not
know. What is unknown is null. Times of day are seconds since the epoch.

A field that is exported names its metric (`metrics_listen`); those of a job have the label
`training_job`.
"""


def page() -> str:
    """The whole page."""
    lines, seen = [HEAD], set[type]()
    for schema, forms in ANSWERS.items():
        lines.append(f"## {schema}\n")
        for form in forms:
            lines += _described(form, seen, is_answer=True)
        if schema == status.STATUS:
            lines.append("### Parts\n\nFigures of a part are there while it runs.\n")
            kinds: list[type] = [parts.Part, *parts.PARTS.values()]
            for part in kinds:
                lines += _described(part, seen)
    return "\n".join(lines)


def _described(kind: type, seen: set[type], *, is_answer: bool = False) -> Iterator[str]:
    """A struct with its fields, then those that it contains and that are new."""
    if kind in seen:
        return
    seen.add(kind)
    if not is_answer:
        yield f"### {heading(kind)}\n"
    yield f"{_text(inspect.cleandoc(kind.__doc__ or ''))}\n"
    base = kind.__base__
    inherited = field_names(base) if base and base is not Struct and base is not object else {}
    if inherited:
        yield f"Also the fields of {_type(base)}.\n"
    hints, told, carried = get_type_hints(kind, include_extras=True), docs(kind), metrics_of(kind)
    own = {key: name for key, name in field_names(kind).items() if key not in inherited}
    if own:
        yield "| key | type | unit | |\n|---|---|---|---|"
    for key, name in own.items():
        units = [one.name for one in annotations_of(kind)[name] if isinstance(one, Unit)]
        words = told[name]
        if metric := carried.get(name):
            total = "_total" if isinstance(metric, Counter) else ""
            words += f" Metric `{metric.name}{total}`."
        yield f"| `{key}` | {_type(hints[name])} | {' '.join(units)} | {_text(words)} |"
    yield ""
    if base and inherited:
        yield from _described(base, seen)
    for name in own.values():
        for inner in _inside(hints[name]):
            yield from _described(inner, seen)


def field_names(kind: type) -> dict[str, str]:
    """Key in JSON -> name of the field."""
    if is_dataclass(kind):
        return {name: name for name in kind.__dataclass_fields__}
    found = type_info(kind)
    assert isinstance(found, StructType)
    return {field.encode_name: field.name for field in found.fields}


def docs(kind: type) -> dict[str, str]:
    """Field -> the docstring below it, also of fields that are inherited."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        if one is not Struct and (issubclass(one, Struct) or is_dataclass(one)):
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(one))).body
            assert isinstance(tree, ast.ClassDef)
            for field, text in zip(tree.body, tree.body[1:], strict=False):
                match field, text:
                    case (
                        ast.AnnAssign(target=ast.Name(id=name)),
                        ast.Expr(value=ast.Constant(value=str(words))),
                    ):
                        found[name] = inspect.cleandoc(words)
    return found


def heading(kind: type) -> str:
    """A class's name in words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__).capitalize()


def _text(words: str) -> str:
    """As one line of a table; JSON has null where Python has None."""
    return re.sub(r"\bNone\b", "null", " ".join(words.split()).replace("|", "\\|"))


def _type(hint: Any) -> str:
    """A type in words."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _type(inner[0])
    if origin in (Union, types.UnionType):
        known = [_type(one) for one in inner if one not in (types.NoneType, UnsetType)]
        known += ["null"] if types.NoneType in inner else []
        return " or ".join(known) + (", or absent" if UnsetType in inner else "")
    if origin is tuple and inner[-1] is not Ellipsis:
        return f"[{', '.join(map(_type, inner))}]"
    if origin in (list, tuple):
        return f"list of {_type(inner[0])}"
    if origin is dict:
        return "object" if inner[1] is Any else f"text to {_type(inner[1])}"
    if hint in WORDS:
        return WORDS[hint]
    return f"[{heading(hint)}](#{heading(hint).lower().replace(' ', '-')})"


def _inside(hint: Any) -> Iterator[type]:
    """Structs that a type contains."""
    if isinstance(hint, type) and (issubclass(hint, Struct) or is_dataclass(hint)):
        yield hint
    for one in get_args(hint):
        yield from _inside(one)


if __name__ == "__main__":
    PAGE.write_text(page())
