"""`hostcc pcie`: the PCIe tree of this host, and which jobs share which of its links."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec

from hostcc.cli.common import Subparsers, add_parser, emit, print_json, table
from hostcc.errors import Exit, InputError
from hostcc.foreign import say
from hostcc.limits import JOB_NAME_WORDS, is_job_name
from hostcc.pcie import hwloc_xml, nccl_xml, render, sysfs
from hostcc.pcie.tree import Tree, jobs_on, shared, uses_of

EPILOG = """\
A job is NAME=DEVICE,DEVICE,...: its GPUs and NICs, by bus id or by the driver's name.  Each
GPU is taken to use the nearest of the NICs; without NICs, the host's memory.
"""
SCHEMA = "hostcc.pcie/1"
MAX_JOBS = 64
COLUMNS = [("Shared link", "left"), ("GB/s", "right"), ("Jobs", "left")]


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = add_parser(subparsers, "pcie", "the PCIe tree, and which jobs share its links")
    parser.epilog = EPILOG
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--sysfs",
        metavar="DIR",
        default="/sys",
        help="of this host, or a copy (default: %(default)s)",
    )
    source.add_argument("--nccl", metavar="FILE", help="read an NCCL topology file instead")
    source.add_argument("--hwloc", metavar="FILE", help="read an hwloc export instead")
    parser.add_argument(
        "--job",
        action="append",
        default=[],
        metavar="NAME=DEVICES",
        help="show which links this job shares with others; may be repeated",
    )
    parser.add_argument(
        "--all", action="store_true", help="show devices that are no GPU or NIC, too"
    )
    parser.add_argument("--json", action="store_true", help="print JSON (docs/internals/pcie.md)")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Draw it."""
    tree = _tree(args)
    uses = _uses(tree, args.job)
    on, contested = jobs_on(tree, uses), shared(tree, uses)
    if args.json:
        print_json(_json(tree, on, contested))
        return Exit.OK
    drawn = list(render.lines(tree, on, everything=args.all))
    say("\n".join(drawn) if drawn else "no GPU or NIC on PCIe here (--all shows the rest)")
    if uses:
        rows = [
            (link, f"{rate / 1e9:.1f}" if (rate := tree.nodes[link].rate) else "-", ", ".join(jobs))
            for link, jobs in contested.items()
        ]
        emit(table(COLUMNS, rows)) if rows else say("the jobs share no link")
    return Exit.OK


def _tree(args: argparse.Namespace) -> Tree:
    if args.nccl:
        return nccl_xml.read(Path(args.nccl))
    if args.hwloc:
        return hwloc_xml.read(Path(args.hwloc))
    if not (Path(args.sysfs) / "devices").is_dir():
        raise InputError(f"--sysfs: expected a copy of /sys, got {args.sysfs}")
    return sysfs.read(Path(args.sysfs))


def _uses(tree: Tree, words: list[str]) -> dict[str, tuple[tuple[str, str], ...]]:
    uses = {}
    if len(words) > MAX_JOBS:
        raise InputError(f"--job: expected at most {MAX_JOBS}, got {len(words)}")
    for word in words:
        name, equals, devices = word.partition("=")
        if not equals or not is_job_name(name) or name in uses:
            raise InputError(f"--job: {word!r:.80}: expected NAME=DEVICES, NAME {JOB_NAME_WORDS}")
        try:
            nodes = [tree.find(device.strip()) for device in devices.split(",")[:256]]
        except InputError as error:
            raise InputError(f"--job: {name}: {error}") from None
        gpus = [node.id for node in nodes if node.kind == "gpu"]
        nics = [node.id for node in nodes if node.kind == "nic"]
        if not gpus:
            raise InputError(f"--job: {name}: expected at least one GPU")
        uses[name] = uses_of(tree, gpus, nics)
    return uses


def _json(
    tree: Tree, on: dict[str, tuple[str, ...]], contested: dict[str, tuple[str, ...]]
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "nodes": [
            {**msgspec.to_builtins(node), "jobs": on.get(node.id, ())}
            for node in tree.nodes.values()
        ],
        "shared": contested,
    }
