"""`hostcc agent`: the daemon, or a look at what it would change."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from hostcc.cli.common import Subparsers, add_parser
from hostcc.errors import Exit, HostccError, InputError

SYSTEM_CONFIG = Path("/etc/hostcc/hostcc.toml")


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = add_parser(subparsers, "agent", "the daemon")
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=f"configuration; NAME.d/*.toml beside it is read too (default: {SYSTEM_CONFIG})",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print the changes it would make, make none"
    )
    parser.add_argument(
        "--observe-only", action="store_true", help="change nothing, answer questions only"
    )
    parser.add_argument("--json", action="store_true", help="with --dry-run: print JSON")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run the daemon until it is told to stop."""
    import msgspec

    from hostcc import configfile, log

    if args.json and not args.dry_run:
        raise InputError("--json: expected together with --dry-run")
    path = args.config or SYSTEM_CONFIG
    config = configfile.load(path, must_exist=args.config is not None)
    if args.observe_only:
        observing = msgspec.structs.replace(config.agent, observe_only=True)
        config = msgspec.structs.replace(config, agent=observing)
    log.configure(config.agent.log_level, config.agent.log_format)
    if args.dry_run:
        from hostcc.cli import dryrun

        return dryrun.show(config, args.json)

    import asyncio

    # numpy's linear algebra is not needed here, nor are its threads and their memory.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

    from hostcc import heap
    from hostcc.agent import Agent

    heap.share()
    try:
        asyncio.run(Agent(config, path if path.exists() else None).run())
    except HostccError as error:
        if config.agent.log_format == "text" and "JOURNAL_STREAM" not in os.environ:
            raise
        log.get_logger("agent").failure("stopped", reason=str(error))
        return error.exit_status
    return Exit.OK
