"""Writes a report as one HTML page: no scripts, nothing from elsewhere, pictures inside.  Pure.

Every text of an answer goes through `svg.words` or an attribute of `svg.tag`, which escape it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hostcc.answers.history import JobHistory
from hostcc.answers.links import LinkRow
from hostcc.answers.parts import part_of
from hostcc.answers.status import JobStatus
from hostcc.cli import advice, links, peers, plan, plan_summary, status
from hostcc.cli.changes import describe
from hostcc.cli.common import Column, duration
from hostcc.cli.dryrun import words as change_words
from hostcc.cli.report_evidence import Evidence
from hostcc.report import charts, circles, svg, topology
from hostcc.report.svg import tag, words
from hostcc.schedule.link_circles import LinkCircle, link_circle

ROWS = 200
"""Of a table."""
CIRCLES, CIRCLES_BYTES = 12, 600_000
LINES = 10
"""Jobs that have a colour and a line of their own in a chart."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
STYLE = f"""
body{{margin:0;background:#f3f5f8;color:{svg.INK};font:14px/1.45 {svg.FONT}}}
main{{max-width:1080px;margin:0 auto;padding:24px 20px 60px}}
h1{{font-size:24px;margin:0 0 2px}}h2{{font-size:17px;margin:0 0 10px}}
.sub{{color:{svg.FAINT};margin:0 0 18px}}
section{{background:#fff;border:1px solid #dfe5ec;border-radius:10px;padding:18px 20px;
margin:0 0 16px;overflow-x:auto}}
.cards{{display:flex;flex-wrap:wrap;gap:12px;margin:0 0 16px}}
.card{{background:#fff;border:1px solid #dfe5ec;border-radius:10px;padding:12px 16px;flex:1;
min-width:130px}}
.card b{{display:block;font-size:22px;font-weight:600}}.card span{{color:{svg.FAINT}}}
.alarms{{border-color:{svg.ALARM};background:#fff5f5}}
table{{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}}
th{{text-align:left;font-weight:600;color:{svg.FAINT};font-size:12px;padding:4px 10px 4px 0;
border-bottom:1px solid #dfe5ec;white-space:nowrap}}
td{{padding:5px 10px 5px 0;border-bottom:1px solid #eef1f5;vertical-align:top}}
.r{{text-align:right;white-space:nowrap}}th.r{{text-align:right}}
.long{{overflow-wrap:anywhere}}td.long:first-child{{min-width:8em}}
.dot{{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:6px}}
ul{{margin:0;padding-left:18px}}svg{{max-width:100%;height:auto;display:block}}
td svg{{display:inline-block;vertical-align:middle}}
p.note{{color:{svg.FAINT};margin:8px 0 0}}nav a{{color:#3266ad;margin-right:14px}}
nav{{margin:0 0 16px}}
@media print{{body{{background:#fff}}section,.card{{break-inside:avoid}}}}
"""
Cell = str
"""Markup of a table's cell."""


def page(of: Evidence) -> str:
    """The whole page."""
    colours = _colours(of)
    sections = [
        ("jobs", "Jobs", _jobs(of, colours)),
        ("history", "Last hour", _history(of, colours)),
        ("links", "Shared links", _links(of, colours)),
        ("paths", "Paths in use", _paths(of, colours)),
        ("plan", "Plan", _plan(of)),
        ("changes", "Changes on this host", _changes(of)),
        ("members", "Members", _members(of)),
    ]
    nav = tag("nav", *(tag("a", words(title), href=f"#{name}") for name, title, _ in sections))
    body = [_heading(of), _alarms(of), _cards(of), nav]
    body += [
        tag("section", tag("h2", words(title)), *parts, id=name) for name, title, parts in sections
    ]
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", words(f"hostcc report: {of.status.agent.instance}")),
        tag("style", STYLE),
    ]
    html = tag("html", tag("head", *head), tag("body", tag("main", *body)), lang="en")
    return f"<!doctype html>\n{html}\n"


def _colours(of: Evidence) -> dict[str, str]:
    """A colour for each job, the busiest first, so that neighbours in charts differ."""
    names = [one.name for one in _busiest(of)]
    names += [job.name for job in of.status.jobs if job.name not in names]
    known = set(names)
    if of.view is not None:
        names += sorted({flow.job for flow in of.view.flows} - known)
    return {name: svg.colour(at) for at, name in enumerate(names)}


def _busiest(of: Evidence) -> list[JobHistory]:
    """Jobs of the last hour, those that sent most first."""
    jobs = of.history.jobs if of.history is not None else []
    return sorted(jobs, key=lambda one: (-sum(rate or 0.0 for rate in one.sent), one.name))


def _heading(of: Evidence) -> str:
    agent = of.status.agent
    doing = f"mode {agent.mode}" if agent.state == "active" else f"observing only: {agent.reason}"
    at = time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(of.taken_at))
    gossip = of.status.gossip
    name = gossip.name if gossip is not None else agent.instance
    about = f"{doing}, hostcc {agent.version}, up {duration(agent.uptime_s)}"
    return tag("h1", words(f"hostcc on {name}")) + tag(
        "p", words(f"{about}. Taken {at} from {of.source}."), class_="sub"
    )


def _alarms(of: Evidence) -> str:
    found = list(status.heading(of.status.agent)[2:])
    found += status.troubles([part_of(row) for row in of.status.parts])
    found += [f"{note.target}: {note.text}" for note in of.status.notes]
    gossip = of.status.gossip
    if gossip is not None and gossip.insecure:
        found.append(f"gossip is INSECURE: whoever reaches {gossip.listen} may say anything")
    found += [
        f"{one.found}: {one.do} ({one.id})"
        for one in advice.advice(of.status)
        if one.kind is advice.Kind.PROBLEM and not one.id.startswith("part-failed")
    ]
    if not found:
        return ""
    listed = tag("ul", *(tag("li", words(line)) for line in dict.fromkeys(found)))
    return tag("section", tag("h2", "Needs attention"), listed, class_="alarms")


def _cards(of: Evidence) -> str:
    jobs = of.status.jobs
    facts = [(str(len(jobs)), "jobs on this host")]
    gains = [job.gain for job in jobs if job.gain is not None and job.gain_over == "off"]
    slow = [job.gain for job in jobs if job.gain is not None and job.gain_over == "alone"]
    if gains:
        facts.append((f"{statistics.median(gains):.2f}x", "median gain over mode off"))
    if slow:
        facts.append((f"{statistics.median(slow):.0%}", "median speed, of alone"))
    if of.links is not None:
        full = sum(row.full and row.jobs > 1 for row in of.links.links)
        facts.append((str(full), "shared links that jobs fill"))
    cluster = of.status.plan.cluster if of.status.plan is not None else None
    if cluster is not None and cluster.predicted is not None:
        facts.append((f"{cluster.predicted:.0%}", "GPU utilisation, as planned"))
    if of.status.gossip is not None:
        alive = of.status.gossip.members.get("alive", 0) + 1
        agreed = "agreed" if of.status.gossip.agreed else "not agreed"
        facts.append((str(alive), f"members, {agreed}"))
    if of.changes is not None:
        facts.append((str(len(of.changes.in_force)), "changes in force"))
    cards = (tag("div", tag("b", words(value)), tag("span", words(what)), class_="card")
             for value, what in facts)  # fmt: skip
    return tag("div", *cards, class_="cards")


def _jobs(of: Evidence, colours: Mapping[str, str]) -> list[str]:
    if not of.status.jobs:
        return [_note("There are no jobs on this host.")]
    listed = of.history.jobs if of.history is not None else []
    past = {one.name: one for one in listed}
    first = charts.trimmed([one.sent for one in listed])
    planned = {one.job: one for one in of.plan.jobs} if of.plan is not None else {}

    def cells(job: JobStatus) -> list[Cell]:
        row = dict(zip([name for name, _ in status.COLUMNS], status.job_row(job), strict=True))
        mine, plan_of = past.get(job.name), planned.get(job.name)
        alone = tag("span", words(row["Alone"]), title=job.alone_how) if job.alone_how else ""
        colour = colours.get(job.name, svg.FAINT)
        return [
            _dot(colour) + words(job.name),
            words(row["Stance"]),
            words(plan_of.level if plan_of else "-"),
            words(row["Period"]),
            words(row["p99"]),
            words(row["Comm."]),
            words(row["Per iter."]),
            alone,
            words(row["Gain"]),
            charts.sparkline(mine.sent[first:], colour, f"{job.name}: sent") if mine else "",
            charts.sparkline(mine.iteration_s[first:], colour, f"{job.name}: iterations")
            if mine
            else "",
        ]

    columns = [
        ("Job", "left"), ("Stance", "left"), ("Level", "right"), ("Period", "right"),
        ("p99", "right"), ("Comm.", "right"), ("Per iter.", "right"), ("Alone", "right"),
        ("Gain", "right"), ("Sent, last hour", "left"), ("Iteration time", "left"),
    ]  # fmt: skip
    plain = status.plain(of.status.jobs)
    return [_table(columns, of.status.jobs, cells), *(_note(line) for line in plain)]


def _history(of: Evidence, colours: Mapping[str, str]) -> list[str]:
    if of.history is None:
        return [_absent(of, "history")]
    jobs = _busiest(of)
    first = charts.trimmed([one.sent for one in jobs])
    events = [(change.at, f"mode {change.mode}") for change in of.history.modes]
    shown, others = jobs[:LINES], jobs[LINES:]
    areas = [charts.Series(one.name, colours[one.name], one.sent[first:]) for one in shown]
    if others:
        rows = zip(*(one.sent[first:] for one in others), strict=True)
        sums = [sum(rate or 0.0 for rate in row) for row in rows]
        areas.append(charts.Series(f"{len(others)} other jobs", "#c3cbd4", sums))
    axis = charts.Axis(of.history.end, of.history.step_s, 1e9 / 8, "Gbit/s sent", events)
    bandwidth = charts.stacked(areas, axis)
    slow = [charts.Series(one.name, colours[one.name], one.iteration_s[first:]) for one in shown]
    axis = charts.Axis(of.history.end, of.history.step_s, 1e-3, "iteration, ms", events)
    times = charts.lines([one for one in slow if any(one.values)], axis)
    if not bandwidth and not times:
        return [_note("Nothing was sent in the last hour.")]
    return [bandwidth, times]


def _links(of: Evidence, colours: Mapping[str, str]) -> list[str]:
    if of.links is None:
        return [_absent(of, "links")]
    shared = [links.judged(row) for row in of.links.links if row.jobs > 1][:ROWS]
    if not shared:
        return [_note("No link is shared by several jobs.")]

    def cells(row: LinkRow) -> list[Cell]:
        return [words(cell) for cell in links.cells(row)]

    note = "Fit: Cassini's score at the best times, in brackets if all iterations begin at once."
    return [_table(links.COLUMNS, shared, cells), _note(note), *_circles(shared, colours)]


def _circles(rows: Iterable[LinkRow], colours: Mapping[str, str]) -> list[str]:
    """The circles of the fullest links, as many as there is room for; links alike once."""
    alike: dict[object, list[LinkRow]] = {}
    for row in rows:
        if row.full:
            alike.setdefault((row.jobs, row.sharing), []).append(row)
    made: list[str] = []
    for first, *others in alike.values():
        found = link_circle(first)
        if isinstance(found, LinkCircle) and len(made) < CIRCLES:
            drawn = circles.picture(found, colours, len(others))
            if sum(map(len, made)) + len(drawn) <= CIRCLES_BYTES:
                made.append(drawn)
    return made


def _paths(of: Evidence, colours: Mapping[str, str]) -> list[str]:
    if of.view is None:
        return [_absent(of, "view")]
    laid = topology.layout(topology.ways(of.view, of.plan.flows if of.plan is not None else ()))
    loads = {row.link: row.load for row in of.links.links if row.jobs > 1} if of.links else {}
    drawn = topology.picture(laid, colours, loads)
    if not drawn:
        return [_note("No flow is on a known path.")]
    notes = ["From sources on the left to destinations on the right."]
    notes.append("Links that jobs share have their load, red: more is offered than they carry.")
    if laid.left_out:
        notes.append(f"{laid.left_out} more paths in use found no room.")
    return [drawn, *map(_note, notes)]


def _plan(of: Evidence) -> list[str]:
    if of.plan is None:
        return [_absent(of, "plan")]
    said = [_note(line) for line in plan_summary.heading(of.plan.state)]
    if not of.plan.jobs:
        return said
    ranked = sorted(of.plan.jobs, key=lambda one: one.rank)
    listed = _table(plan.COLUMNS, ranked, lambda one: [words(cell) for cell in plan.row(one)])
    return [*said, listed, _note(of.plan.reason)]


def _changes(of: Evidence) -> list[str]:
    if of.changes is None:
        return [_absent(of, "changes")]
    columns = [("Change", "left"), ("What", "left"), ("From", "left"), ("To", "left"),
               ("Why", "left"), ("Undo", "left")]  # fmt: skip
    listed = _table(
        columns,
        of.changes.in_force,
        lambda one: [
            words(one.id), words(one.target), words(change_words(one.before)),
            words(change_words(one.after)), words(one.why), words(one.undo),
        ],
    )  # fmt: skip
    latest = of.changes.latest[-30:]
    entries = _table(
        [("At", "left"), ("Entry", "left"), ("", "left")],
        latest,
        lambda one: [words(_clock(one.get("at"))), words(one.get("record")), words(_entry(one))],
    )
    parts = [listed if of.changes.in_force else _note("No change is in force.")]
    return [*parts, tag("h2", "Latest entries of the journal"), entries] if latest else parts


def _members(of: Evidence) -> list[str]:
    if of.peers is None:
        return [_absent(of, "peers")]
    notes = [*peers.troubles(of.peers.troubles), *peers.disagreements(of.peers.disagreements)]
    if not of.peers.peers:
        return [_note("No other members are known."), *map(_note, notes)]
    listed = _table(
        peers.COLUMNS, of.peers.peers, lambda one: [words(cell) for cell in peers.row(one)]
    )
    return [listed, *map(_note, notes)]


def _table(
    columns: Sequence[Column], rows: Sequence[Any], cells: Callable[[Any], list[Cell]]
) -> str:
    kinds = ["r" if side == "right" else "long" for _, side in columns]
    heads = (
        tag("th", words(name), class_="r" if side == "right" else None) for name, side in columns
    )
    lines = [
        tag("tr", *(_cell(cell, kind) for cell, kind in zip(cells(row), kinds, strict=True)))
        for row in rows[:ROWS]
    ]
    more = [_note(f"and {len(rows) - ROWS} more")] if len(rows) > ROWS else []
    head = tag("thead", tag("tr", *heads))
    return "".join([tag("table", head, tag("tbody", *lines)), *more])


def _cell(cell: Cell, kind: str) -> str:
    return f'<td class="{kind}">{cell}</td>'


def _dot(colour: str) -> str:
    return f'<span class="dot" style="background:{colour}"></span>'


def _note(text: str) -> str:
    return tag("p", words(text), class_="note")


def _absent(of: Evidence, what: str) -> str:
    return _note(f"Not available: {of.missing.get(what, 'nobody said why')}")


def _clock(at: object) -> str:
    if not isinstance(at, int | float) or not 0 <= at < 1 << 33:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def _entry(one: dict[str, Any]) -> str:
    """A journal entry in words; one of an archive may be anything."""
    try:
        return describe(one)
    except (KeyError, TypeError, AttributeError):
        return "-"
