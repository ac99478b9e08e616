"""`hostcc agent`: the daemon, a look at what it would change, or a check of its configuration."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hostcc.cli.common import Subparsers, add_parser, print_json
from hostcc.errors import ConfigError, Exit, HostccError, InputError
from hostcc.foreign import say

if TYPE_CHECKING:
    from hostcc.config.load import LoadedConfig
    from hostcc.config.schema import Config

SCHEMA = "hostcc.check/1"
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
    parser.add_argument(
        "--check",
        action="store_true",
        help="say what of the configuration is wrong or does not fit this host, start nothing",
    )
    parser.add_argument("--json", action="store_true", help="with --dry-run, --check: print JSON")
    status = f"{Exit.CONFIGURATION:d}"
    parser.epilog = f"Exit status {status}: the configuration is wrong, or does not fit this host."
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run the daemon until it is told to stop."""
    from hostcc import log

    if args.check and args.dry_run:
        raise InputError("--check: expected without --dry-run")
    if args.json and not (args.dry_run or args.check):
        raise InputError("--json: expected together with --dry-run or --check")
    path = args.config or SYSTEM_CONFIG
    if args.check:
        return check(path, args)
    loaded = load(path, must_exist=args.config is not None)
    config = observing(loaded.config, args)
    log.configure(config.agent.log_level, config.agent.log_format)
    for line in loaded.ignored:
        log.get_logger("config").warning(line)
    if args.dry_run:
        from hostcc.cli import dryrun

        return dryrun.show(config, args.json)

    import asyncio

    # numpy's linear algebra is not needed here, nor are its threads and their memory.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

    from hostcc.daemon.agent import Agent
    from hostcc.daemon.stalls import Stalls, new_loop
    from hostcc.system import descriptors, malloc

    descriptors.allow_all()
    malloc.share_heap()
    stalls = Stalls()
    try:
        # Absolute, because others read it, too: `hostcc bugreport`.
        agent = Agent(config, path.absolute(), stalls=stalls, ignored=loaded.ignored)
        with asyncio.Runner(loop_factory=lambda: new_loop(stalls)) as runner:
            runner.run(agent.run())
    except HostccError as failure:
        error = explained(failure, config, loaded)
        if config.agent.log_format == "text" and "JOURNAL_STREAM" not in os.environ:
            raise error from None
        log.get_logger("agent").failure("stopped", reason=str(error))
        return error.exit_status
    return Exit.OK


def load(path: Path, must_exist: bool) -> LoadedConfig:
    """The configuration.  Raises ConfigError."""
    from hostcc.config import load as configfile

    try:
        loaded = configfile.read(path, must_exist)
        for problem in configfile.check(loaded.config):
            raise loaded.refusal(*problem)
    except InputError as error:
        raise ConfigError(str(error)) from None
    return loaded


def explained(error: HostccError, config: Config, loaded: LoadedConfig) -> HostccError:
    """Why it did not start; ConfigError where it never will with this configuration."""
    from hostcc.daemon import config_check

    if isinstance(error, ConfigError):
        return error
    stopping = [one for one in config_check.misfits(config) if one.stops]
    if not stopping:
        return error
    lines = [one.line(loaded.file_of(one.key)) for one in stopping]
    return ConfigError("; ".join([str(error), *lines]))


def observing(config: Config, args: argparse.Namespace) -> Config:
    """As the command line wants it."""
    import msgspec

    if not args.observe_only:
        return config
    agent = msgspec.structs.replace(config.agent, observe_only=True)
    return msgspec.structs.replace(config, agent=agent)


def check(path: Path, args: argparse.Namespace) -> int:
    """One line for each thing that is wrong."""
    from hostcc.config.load import present

    ignored: list[str] = []
    lines = list(problems(path, args, ignored))
    for line in [] if args.json else ignored:
        say(f"hostcc agent: {line}", file=sys.stderr)
    if args.json:
        print_json({"schema": SCHEMA, "problems": lines, "ignored": ignored})
    else:
        fine = f"{path}: fits this host" if present(path) else f"no {path}: the defaults fit"
        say("\n".join(lines) or fine)
    return Exit.CONFIGURATION if lines else Exit.OK


def problems(path: Path, args: argparse.Namespace, ignored: list[str]) -> Iterator[str]:
    """What is wrong with the files; if nothing is, what does not fit this host.

    `ignored`: gets a line for each key of a newer version.
    """
    from hostcc.config import load as configfile
    from hostcc.daemon import config_check

    try:
        loaded = configfile.read(path, must_exist=args.config is not None)
    except InputError as error:
        yield str(error)
        return
    ignored += loaded.ignored
    wrong = list(configfile.check(loaded.config))
    for problem in wrong:
        yield str(loaded.refusal(*problem))
    if not wrong:
        for one in config_check.misfits(observing(loaded.config, args)):
            yield one.line(loaded.file_of(one.key))
