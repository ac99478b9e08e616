"""Tables of what a leaf-spine fabric saw of flows, for a terminal."""

from __future__ import annotations

from rich import box
from rich.table import Table

from hostcc.lab.results import Results, RunResult


def tables(results: Results) -> list[Table]:
    """Ways of the first run of each variant, and how long flows went on changing in all runs."""
    made = []
    if any(run.flows for variant in results.variants for run in variant.runs):
        made.append(_flows(results))
    if any(run.settled for variant in results.variants for run in variant.runs):
        made.append(_settled(results))
    return made


def _flows(results: Results) -> Table:
    table = _table("flows at the end of the first run")
    for name in ("variant", "job", "from", "to", "spine", "DSCP"):
        table.add_column(name, no_wrap=True)
    table.add_column("moves", justify="right")
    for variant in results.variants:
        flows = variant.runs[0].flows if variant.runs else []
        for index, flow in enumerate(flows):
            moves = len(flow.ways) - len(flow.spines)
            table.add_row(
                variant.name if index == 0 else "",
                flow.job,
                flow.src,
                flow.dst,
                _list(flow.spines),
                _list(flow.dscp),
                str(moves),
                end_section=index == len(flows) - 1,
            )
    return table


def _settled(results: Results) -> Table:
    table = _table("seconds until flows have settled, and resets")
    for name in ("variant", "after"):
        table.add_column(name)
    for name in ("s", "resets"):
        table.add_column(name, justify="right")
    for variant in results.variants:
        for what in dict.fromkeys(one.what for run in variant.runs for one in run.settled):
            times = [one.seconds for run in variant.runs for one in run.settled if one.what == what]
            known = [time for time in times if time is not None]
            words = f"{min(known):.1f}..{max(known):.1f}" if known else "not seen"
            if 0 < len(known) < len(times):
                words += f", {len(times) - len(known)} not seen"
            table.add_row(variant.name, what, words, str(_resets(variant.runs)))
    return table


def _resets(runs: list[RunResult]) -> int:
    return sum(run.resets for run in runs)


def _list(numbers: list[int]) -> str:
    return ",".join(map(str, numbers))


def _table(title: str) -> Table:
    return Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False,
        collapse_padding=True,
    )  # fmt: skip
