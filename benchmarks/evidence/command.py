"""`hostcc evidence NAME`: published figures beside the ones found here (docs/evidence.md)."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.context import progress
from benchmarks.evidence import registry
from benchmarks.evidence.document import Evidence, Line, Request, Study, answer
from hostcc.cli.common import emit, print_json, table
from hostcc.errors import Exit, HostccError, InputError
from hostcc.foreign import say

EPILOG = """\
examples:
  hostcc evidence list
  hostcc evidence crux-11-15
  hostcc evidence routing-8 --quick --json
  hostcc evidence all --out out/evidence

Fitted lines are those that a parameter was set by; all others are predictions (docs/evidence.md).
"""
LIST, ALL = "list", "all"
COLUMNS = [
    ("setting", "left"),
    ("figure", "left"),
    ("published", "right"),
    ("here", "right"),
    ("difference", "right"),
    ("bar", "left"),
    ("why", "left"),
]
ROUNDING = 1e-9
"""Differences below this are none."""
HEADINGS = {"fitted": "fitted to the published figure", "predicted": "predicted"}


def register(parser: argparse.ArgumentParser) -> None:
    """Add arguments and options to the parser of `hostcc evidence`."""
    parser.epilog = EPILOG
    parser.add_argument(
        "name",
        metavar="NAME",
        choices=[LIST, ALL, *registry.every()],
        help="a piece of evidence; `list`: which there are; `all`: every one",
    )
    parser.add_argument("--quick", action="store_true", help="small settings, in seconds")
    parser.add_argument(
        "--fit", action="store_true", help="crux-23: set the free numbers anew first"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="keep evidence.json and plots in this folder"
    )
    parser.add_argument("--json", action="store_true", help="print JSON (docs/evidence.md)")
    parser.set_defaults(func=_run)


def _run(args: argparse.Namespace) -> int:
    studies = registry.every()
    if args.name == LIST:
        if args.out is not None or args.quick or args.fit:
            raise InputError("list: expected neither --out, --quick nor --fit beside it")
        _list(studies.values(), as_json=args.json)
        return Exit.OK
    chosen = list(studies.values()) if args.name == ALL else [studies[args.name]]
    if args.fit and not (len(chosen) == 1 and chosen[0].fits):
        able = ", ".join(one.name for one in studies.values() if one.fits)
        raise InputError(f"--fit: expected it with {able}")
    found = []
    if args.out is not None:
        _make(args.out)
    with progress() as tell:
        for study in chosen:
            tell(study.name, 0, 1)
            found.append((study, study.run(Request(args.quick, args.out, args.fit, tell))))
    document = answer(found, quick=args.quick)
    written = _keep(found, document, args.out) if args.out is not None else []
    if args.json:
        print_json(document)
        return Exit.OK
    for study, evidence in found:
        _show(study, evidence)
    if written:
        say("written: " + ", ".join(map(str, written)))
    return Exit.OK


def _list(studies: Iterable[Study], *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "schema": "hostcc.evidence-list/1",
                "evidence": [
                    {"name": one.name, "source": one.source, "about": one.about} for one in studies
                ],
                "benchmarks": [
                    {"source": source, "benchmark": name, "about": about}
                    for source, name, about in registry.ELSEWHERE
                ],
                "absent": [{"figures": one.figures, "why": one.why} for one in registry.absent()],
            }
        )
        return
    rows = [(one.name, one.source, one.about) for one in studies]
    emit("evidence", table([(word, "left") for word in ("name", "source", "about")], rows))
    elsewhere = [
        (f"hostcc bench {name}", source, about) for source, name, about in registry.ELSEWHERE
    ]
    emit("\nmeasured elsewhere", table([("", "left")] * 3, elsewhere))
    missing = [(one.figures, one.why) for one in registry.absent()]
    emit("\nnot reproducible", table([("figures", "left"), ("why", "left")], missing))


def _show(study: Study, evidence: Evidence) -> None:
    say(f"\n{study.name}: {study.about} ({study.source})")
    for kind, heading in HEADINGS.items():
        lines = [line for line in evidence.lines if line.kind == kind]
        if lines:
            emit(f"\n{heading}", table(COLUMNS, map(_row, lines)))
    for title, texts in (("missing", evidence.missing), ("note", evidence.notes)):
        for text in texts:
            say(f"{title}: {text}")


def _row(line: Line) -> tuple[str, ...]:
    held = {True: "yes", False: "NO", None: ""}[line.met]
    return (
        line.setting,
        line.figure,
        _number(line.published),
        _number(line.here),
        _number(line.difference, signed=True),
        f"{line.bar}: {held}" if line.bar else "",
        line.why,
    )


def _number(value: float | None, *, signed: bool = False) -> str:
    if value is None:
        return "-"
    if abs(value) < ROUNDING:
        return "0"
    return f"{value:+.4g}" if signed else f"{value:.4g}"


def _make(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HostccError(f"{out}: {error.strerror}") from error


def _keep(
    found: Sequence[tuple[Study, Evidence]], document: dict[str, object], out: Path
) -> list[Path]:
    """Write the document and the plots.  Raises HostccError."""
    from benchmarks.evidence import plots

    target = out / "evidence.json"
    try:
        target.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
        drawn = [plots.draw(study.name, one.curves, out) for study, one in found if one.curves]
    except OSError as error:
        raise HostccError(f"{error.filename or out}: {error.strerror}") from error
    return [target, *drawn]
