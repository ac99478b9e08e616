"""`hostcc profile JOB`: what was measured of a job, drawn, kept and analysed again."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from hostcc.answers.jobs import PROFILE, Analysis, Circle, Profile, ProfileFigures
from hostcc.cli.common import (
    Subparsers,
    add_client_options,
    add_parser,
    print_json,
    read,
    seconds,
    size,
)
from hostcc.client import ask
from hostcc.errors import Exit, HostccError, InputError
from hostcc.foreign import say
from hostcc.limits import JOB_NAME_WORDS, is_job_name

KINDS = (".png", ".svg", ".pdf")
BARS = " ▁▂▃▄▅▆▇█"
SHOWN = 8
"""Destinations."""


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = add_parser(subparsers, "profile", "what was measured of a job")
    parser.usage = (
        "hostcc profile JOB [--plot FILE] [--record FILE] [--json] [--socket PATH]\n"
        "       hostcc profile --replay FILE [--plot FILE] [--json]"
    )
    parser.epilog = (
        "A recording is the job's bytes over time as the agent keeps them, up to 16384 bins.\n"
        "--record and --replay show the analysis of the recording itself, which is the same\n"
        "each time; the agent's own profile has followed the job for longer."
    )
    parser.add_argument("job", nargs="?", metavar="JOB", help="its name, as in hostcc jobs")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw it: .png, .svg or .pdf")
    parser.add_argument("--record", type=Path, metavar="FILE", help="keep the series (.npz)")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="analyse a kept series")
    add_client_options(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Ask or read, analyse, keep, draw, show."""
    check(args)
    if args.replay is not None:
        from hostcc.measure import series_file

        recording: Any = series_file.load(args.replay)
        answer = {"schema": PROFILE, "job": recording.meta.job, "profile": None}
    else:
        answer = ask(args.socket, "profile", job=args.job, series=bool(args.record or args.plot))
        recording = _received(answer) if args.record or args.plot else None
    if recording is not None:
        _analyse(args, answer, recording)
    if args.json:
        print_json(answer)
        return Exit.OK
    say("\n".join(lines(read(args.socket, answer, Profile))))
    for path, words in ((args.record, "recorded"), (args.plot, "drawn")):
        if path is not None:
            say(f"{words}: {path}")
    return Exit.OK


def check(args: argparse.Namespace) -> None:
    """Raises InputError for words that do not go together."""
    if (args.job is None) == (args.replay is None):
        raise InputError("expected either JOB or --replay FILE")
    if args.job is not None and not is_job_name(args.job):
        raise InputError(f'JOB: expected {JOB_NAME_WORDS}, got "{args.job[:80]}"')
    if args.plot is not None and args.plot.suffix.lower() not in KINDS:
        raise InputError(
            f"--plot: expected a name that ends in {', '.join(KINDS)}, got {args.plot}"
        )
    if args.replay is not None and args.replay.is_fifo():
        raise InputError(f"{args.replay}: expected a file, got a pipe")
    if args.record is not None and args.replay is not None:
        raise InputError("--record: expected with JOB, got it with --replay")


def _received(answer: dict[str, Any]) -> Any:
    import socket

    from hostcc.measure import replay

    sent = answer.pop("recording", None)
    if sent is None:
        why = answer.get("profile_reason") or "nothing was measured yet"
        raise HostccError(f"no series of job {answer['job']}: {why}")
    return replay.received(answer["job"], socket.gethostname(), sent)


def _analyse(args: argparse.Namespace, answer: dict[str, Any], recording: Any) -> None:
    import msgspec

    from hostcc.measure import plain, replay, series_file

    if args.record is not None:
        series_file.save(args.record, recording)
    found = replay.analyse(recording)
    answer["analysis"] = msgspec.to_builtins(plain.plain(found))
    answer["circle"] = msgspec.to_builtins(plain.circle(found))
    answer.pop("recording", None)
    if args.plot is not None:
        from hostcc.measure.plot import draw

        draw(recording.series, found, args.plot)


def lines(answer: Profile) -> list[str]:
    """For people."""
    got = answer.analysis or answer.profile
    shown = [heading(answer)]
    if got is None:
        return [*shown, f"  not measured: {answer.profile_reason or 'unknown'}"]
    facts = periodic(got, answer.circle) if got.periodic else []
    if not got.periodic:
        facts = [("period", f"none: {got.reason}")]
    facts += links(got)
    if isinstance(got, ProfileFigures) and got.periodic:
        facts += [(f"to {to}", size(sent)) for to, sent in list(got.bytes_to.items())[:SHOWN]]
    facts += work(got)
    wide = max(len(name) for name, _ in facts)
    return [*shown, *(f"  {name:<{wide}}  {text}" for name, text in facts)]


def heading(answer: Profile) -> str:
    """Which job it is."""
    words = [f"job {answer.job}"]
    if answer.how:
        words.append(f"found by {answer.how}")
    if answer.unmanaged_reason:
        words.append(f"not managed: {answer.unmanaged_reason}")
    if answer.profiling:
        words.append("its turn to be profiled")
    if answer.analysis:
        words.append("analysis of the recorded series")
    return ", ".join(words)


def periodic(got: Analysis, circle: Circle | None) -> list[tuple[str, str]]:
    """What an iteration is like."""
    mean, spread = seconds(got.mean_period_s), f"{100 * (got.spread or 0.0):.2g} %"
    sent, taken = size(got.tx_bytes), size(got.rx_bytes)
    busy, start = seconds(got.communication_s), seconds(got.communication_start_s)
    total = size(got.bytes_per_iteration)
    facts = [
        ("period", f"{seconds(got.period_s)}, mean {mean}, half of them within {spread}"),
        ("confidence", f"{got.confidence:.2f}: {got.reason}"),
        ("bytes", f"{total} an iteration: {sent} sent, {taken} received"),
        ("background", f"{size(got.background_bytes_per_s)}/s"),
        ("communication", f"{busy} an iteration, from {start} after its start"),
    ]
    if circle:
        facts.append(("rate", sparkline(circle.mean)))
    return facts


def links(got: Analysis) -> list[tuple[str, str]]:
    """Speed of each link, and the time that an iteration needs on it."""
    facts = []
    for link in got.links:
        speed = bits(link.bits_per_s) + (" (nominal)" if link.nominal else "")
        needs = "" if link.time_s is None else f", t {seconds(link.time_s)}"
        facts.append((f"link {link.name}", speed + needs))
    return facts


def work(got: Analysis) -> list[tuple[str, str]]:
    """Work on GPUs, and what was counted."""
    facts = [("overlap", share(got.overlap) or f"unknown: {got.overlap_reason}")]
    figures = got if isinstance(got, ProfileFigures) else None
    known = flop(got.flop)
    if known and figures and figures.flop_source:
        known += f" ({figures.flop_source})"
    unknown = unknown_work(figures) if figures else "unknown: not recorded"
    facts.append(("W", known or unknown))
    if got.intensity is not None:
        facts.append(("I = W/t", f"{flop(got.intensity)}/s"))
    if figures and figures.marks:
        facts.append(("marks", str(figures.marks)))
    if figures and figures.changes:
        facts.append(("changes", f"{figures.changes} of its pattern so far"))
    return facts


def unknown_work(got: ProfileFigures) -> str:
    """Why W is unknown, and what is assumed instead."""
    words = f"unknown: {got.flop_reason or 'not recorded'}"
    if got.assumed_flop_per_s is None:
        return words
    rate = f"{flop(got.assumed_flop_per_s)}/s while it computes"
    return f"{words}; assumed: {rate}, or the mean of its hosts that measure it"


def sparkline(values: list[float], width: int = 64) -> str:
    """Rates over one iteration as a line of bars."""
    step = max(1, len(values) // width)
    means = [sum(values[at : at + step]) / step for at in range(0, len(values) - step + 1, step)]
    top = max(means, default=0.0) or 1.0
    return "".join(BARS[round(value / top * (len(BARS) - 1))] for value in means)


def share(value: float | None) -> str:
    """A share in per cent; empty when it is unknown."""
    return "" if value is None else f"{100 * value:.0f} %"


def bits(value: float | None) -> str:
    """A link's speed."""
    return "speed unknown" if value is None else f"{value / 1e9:g} Gbit/s"


def flop(value: float | None) -> str:
    """FLOP with three digits; empty when it is unknown."""
    if value is None:
        return ""
    for unit, step in (("EFLOP", 1e18), ("PFLOP", 1e15), ("TFLOP", 1e12), ("GFLOP", 1e9)):
        if value >= step:
            return f"{value / step:.3g} {unit}"
    return f"{value:.3g} FLOP"
