"""`tools/trace-qdisc`: delay and drops of packets in each queueing discipline."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hostcc.cli.common import seconds, size
from tools.tracing.bcc_program import Program, kernel_btf, text_of
from tools.tracing.histogram import quantiles_us
from tools.tracing.kernel_layout import drop_reasons
from tools.tracing.netns_names import Namespaces
from tools.tracing.script import Output, Until, make_parser, positive_seconds, ready, run
from tools.tracing.testrun import run_raw_tracepoint

TC_H_ROOT = 0xFFFFFFFF
QUANTILES = (0.5, 0.99, 1.0)
COUNTED = ("packets", "bytes", "drops", "dropped_bytes", "waited", "waited_ns")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = make_parser(
        "trace-qdisc",
        "Show queueing delay and drops of every queueing discipline that packets pass.",
        "tools/trace-qdisc --device eth0 --interval 0.5 --duration 10",
        "N lines, of all queueing disciplines together",
        "Delay is measured packet by packet, from entering to leaving the discipline at the root\n"
        "of a device queue; those below it (a class's) show drops and backlog.  A packet that\n"
        "finds an idle queue may bypass it and is not counted.  Covers all network namespaces;\n"
        "needs no agent.",
    )
    made.add_argument(
        "--interval",
        type=positive_seconds,
        default=1.0,
        metavar="S",
        help="time between reports (default: %(default)g)",
    )
    made.add_argument("--device", metavar="NAME", help="only this device")
    made.add_argument(
        "--netns", metavar="NAME", help='only this network namespace; "-" for our own'
    )
    return made


@dataclass(frozen=True)
class DisciplineCounters:
    """Counters of one discipline since tracing began."""

    counts: Mapping[str, int] = field(default_factory=dict)
    buckets: Mapping[int, int] = field(default_factory=dict)

    @property
    def any(self) -> bool:
        """Whether there is anything."""
        return any(self.counts.values())

    def since(self, earlier: DisciplineCounters) -> DisciplineCounters:
        """What came after `earlier`."""
        return DisciplineCounters(
            {k: v - earlier.counts.get(k, 0) for k, v in self.counts.items()},
            {k: v - earlier.buckets.get(k, 0) for k, v in self.buckets.items()},
        )


@dataclass(frozen=True)
class Leaf:
    """A discipline below the root: counters that the kernel keeps."""

    handle: int
    parent: int
    kind: str
    packets: int
    bytes: int
    drops: int
    counted: bool
    """False when the kernel keeps the counters a CPU, where they are not read."""


def trace(args: argparse.Namespace, until: Until, out: Output) -> None:
    """Print until the limit or a signal."""
    names = Namespaces()
    types = kernel_btf()
    drops = " || ".join(f"(r) == {value}" for value in drop_reasons(types, "QDISC")) or "0"
    hooks = ["qdisc_enqueue", "qdisc_dequeue", "kfree_skb"]
    with Program(["common", "qdisc"], hooks, {"IS_QDISC_DROP(r)": drops}, btf=types) as program:
        walk = program.raw_function("walk")
        ready(out, until, "queueing disciplines")
        before: dict[int, DisciplineCounters] = {}
        dropped: dict[int, int] = {}
        last_s = until.started
        for elapsed in until.ticks(args.interval):
            now_s = time.monotonic()
            seen, infos = _read(program)
            new = {key: seen[key].since(before.get(key, DisciplineCounters())) for key in seen}
            # Of a device that nothing came to, nothing is read: it may be gone.
            active = [key for key in sorted(infos, key=_place(infos)) if new[key].any]
            leaves = _leaves(program, walk, {infos[key].dev for key in active})
            first = {key.value: count.value for key, count in program.rows("first_drops")}
            dropped = {**first, **dropped}
            chosen = [key for key in active if _chosen(args, infos[key], names)]
            if chosen:
                out.heading(f"{elapsed:.3f} s")
            for key in chosen:
                row = infos[key]
                below = leaves.get(row.dev, [])
                record = describe(row, new[key], below, dropped, names, now_s - last_s)
                out.result(record, text(record))
            dropped.update((k, leaf.drops) for rows in leaves.values() for k, leaf in rows)
            before, last_s = seen, now_s


def _place(infos: Mapping[int, Any]) -> Callable[[int], tuple[int, int, int]]:
    return lambda key: (infos[key].netns, infos[key].ifindex, infos[key].parent)


def _chosen(args: argparse.Namespace, row: Any, names: Namespaces) -> bool:
    return args.device in (None, text_of(row.name)) and args.netns in (None, names.name(row.netns))


def _read(program: Program) -> tuple[dict[int, DisciplineCounters], dict[int, Any]]:
    """What was counted for each discipline, and what it is."""
    buckets: dict[int, dict[int, int]] = {}
    for key, value in program.rows("delays"):
        buckets.setdefault(key.qdisc, {})[key.index] = value.value
    infos = {key.value: row for key, row in program.rows("qdiscs")}
    seen = {
        key: DisciplineCounters(
            {name: getattr(row, name) for name in COUNTED}, buckets.get(key, {})
        )
        for key, row in infos.items()
    }
    return seen, infos


def _leaves(program: Program, walk: int, devices: set[int]) -> dict[int, list[tuple[int, Leaf]]]:
    """Device to the disciplines on it that are not at a root, with their addresses."""
    program.table("leaves").clear()
    for device in devices:
        run_raw_tracepoint(walk, [device])
    found: dict[int, list[tuple[int, Leaf]]] = {}
    for key, row in program.rows("leaves"):
        leaf = Leaf(
            row.handle,
            row.parent,
            text_of(row.kind),
            row.packets,
            row.bytes,
            row.drops,
            counted=not row.flags,
        )
        found.setdefault(row.dev, []).append((key.value, leaf))
    return {dev: sorted(rows, key=lambda item: item[1].handle) for dev, rows in found.items()}


def describe(
    row: Any,
    new: DisciplineCounters,
    below: Sequence[tuple[int, Leaf]],
    dropped: Mapping[int, int],
    names: Namespaces,
    interval_s: float,
) -> dict[str, Any]:
    """One discipline at the root of a device queue, one interval."""
    waited = new.counts["waited"]
    spread = quantiles_us(new.buckets, QUANTILES)
    delay = None
    if waited and spread:
        delay = {
            "packets": waited,
            "mean": round(new.counts["waited_ns"] / waited / 1e3, 3),
            **{key: round(at, 3) for key, at in zip(("p50", "p99", "max"), spread, strict=True)},
        }
    return {
        "at": round(time.time(), 6),
        "interval_s": round(interval_s, 6),
        "netns": names.name(row.netns),
        "device": text_of(row.name),
        "ifindex": row.ifindex,
        "kind": text_of(row.kind),
        "handle": handle(row.handle),
        "parent": handle(row.parent),
        "packets": new.counts["packets"],
        "bytes": new.counts["bytes"],
        "drops": new.counts["drops"],
        "dropped_bytes": new.counts["dropped_bytes"],
        "delay_us": delay,
        "below": [
            {
                "kind": leaf.kind,
                "handle": handle(leaf.handle),
                "parent": handle(leaf.parent),
                "drops": leaf.drops - dropped.get(key, 0) if leaf.counted else None,
                "backlog_packets": leaf.packets if leaf.counted else None,
                "backlog_bytes": leaf.bytes if leaf.counted else None,
            }
            for key, leaf in below
        ],
    }


def handle(number: int) -> str:
    """A handle or class as tc(8) writes it."""
    if number == TC_H_ROOT:
        return "root"
    major, minor = number >> 16, number & 0xFFFF
    return f"{major:x}:{minor:x}" if minor else f"{major:x}:"


def text(record: Mapping[str, Any]) -> str:
    """A line for a person, and one for each discipline below."""
    delay = record["delay_us"]
    shown = "no delay measured"
    if delay:
        shown = "delay " + "  ".join(
            f"{key} {duration(delay[key])}" for key in ("mean", "p50", "p99", "max")
        )
    first = (
        f"  {record['netns']} {record['device']}: {record['kind']} {record['handle']}"
        f" parent {record['parent']}  {record['packets']} packets  {size(record['bytes'])}"
        f"  dropped {record['drops']}  {shown}"
    )
    below = [
        f"      {leaf['kind']} {leaf['handle']} parent {leaf['parent']}"
        f"  dropped {_dash(leaf['drops'])}  backlog {_dash(leaf['backlog_packets'])} packets"
        f" {size(leaf['backlog_bytes'])}"
        for leaf in record["below"]
    ]
    return "\n".join([first, *below])


def duration(micros: float) -> str:
    """A delay (us) for a person, however short."""
    return seconds(micros / 1e6) if micros >= 1 else "<1 us"


def _dash(value: int | None) -> str:
    return "-" if value is None else str(value)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script; the exit status."""
    return run(parser(), argv, trace)


if __name__ == "__main__":
    raise SystemExit(main())
