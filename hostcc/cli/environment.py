"""`hostcc environment`: the variables of a job that something else starts, as `export` lines, or
as a specification for container runtimes.

For prologs of job schedulers.  It reads the configuration and asks no agent, so that no job waits
for one that hangs.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hostcc.cli.common import Subparsers, add_parser
from hostcc.errors import Exit, HostccError, InputError
from hostcc.foreign import say
from hostcc.limits import JOB_NAME_WORDS, is_job_name

if TYPE_CHECKING:
    from hostcc.config.schema import Config

NUMBER = "%J"
"""In the name of Slurm's jobs: where the number belongs."""
_PLAIN = re.compile(r"[A-Za-z0-9%@,+=:._/-]*\Z")
"""What a shell and Slurm's task prolog, which knows no quotes, both read as it stands."""


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = add_parser(
        subparsers, "environment", "the variables of a job that something else starts"
    )
    name = parser.add_mutually_exclusive_group(required=True)
    name.add_argument("--job", metavar="NAME", help=JOB_NAME_WORDS)
    name.add_argument(
        "--slurm",
        action="store_true",
        help=f"for any of Slurm's jobs: {NUMBER.replace('%', '%%')} stands for the number",
    )
    name.add_argument(
        "--cdi",
        action="store_true",
        help="for containers: a specification of the Container Device Interface "
        "(docs/kubernetes.md)",
    )
    parser.add_argument(
        "--copy-to",
        type=Path,
        metavar="DIR",
        help="with --cdi: first copy what jobs load into a folder of the host, and name it there",
    )
    parser.add_argument(
        "--rdma",
        action="store_true",
        help="with those of the transport shim (docs/internals/shim.md)",
    )
    parser.add_argument(
        "--mark",
        action="store_true",
        help="take the steps of PyTorch's optimiser as iteration boundaries",
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="the agent's configuration (default: as for hostcc agent)",
    )
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Print them, one a line."""
    from hostcc.cli.agent import SYSTEM_CONFIG
    from hostcc.config.load import load

    if args.cdi and (args.rdma or args.mark):
        raise InputError("--cdi: its devices stand for --rdma and --mark; leave these out")
    if args.copy_to is not None and not args.cdi:
        raise InputError("--copy-to: expected with --cdi")
    if args.job is not None and not is_job_name(args.job):
        raise InputError(f'--job: expected {JOB_NAME_WORDS}, got "{args.job[:80]}"')
    config = load(args.config or SYSTEM_CONFIG, must_exist=args.config is not None)
    if args.cdi:
        from hostcc.cli import container_devices

        say(container_devices.specification(config, args.copy_to))
        return Exit.OK
    if args.rdma:
        from hostcc.verbs import inject

        inject.check()
    job = slurm_name(config) if args.slurm else args.job
    for line in exports(variables(config, job, args.rdma, args.mark)):
        say(line)
    return Exit.OK


def slurm_name(config: Config) -> str:
    """What discovery calls Slurm's jobs, without the number."""
    cluster = config.discover.slurm_cluster
    return ":".join(["slurm", *([cluster] if cluster else []), NUMBER])


def variables(config: Config, job: str, rdma: bool, mark: bool) -> dict[str, str]:
    """What `hostcc run` sets, from the agent's configuration."""
    found = {"HOSTCC_JOB": job, "HOSTCC_MARK_SOCKET": config.marks_path}
    if mark:
        from hostcc.injob.torch_hook import site_directory

        found.update(HOSTCC_MARK="1", PYTHONPATH=str(site_directory()))
    if rdma:
        from hostcc.verbs import inject

        found = {**inject.environment("any", found, config.shim_variables), "HOSTCC_JOB": job}
    return found


def exports(found: Mapping[str, str]) -> list[str]:
    """`export NAME=VALUE`, as shells and Slurm's task prolog take it.  Raises HostccError."""
    for name, value in found.items():
        if not _PLAIN.match(value):
            raise HostccError(
                f'{name}: expected a value of A-Z a-z 0-9 % @ , + = : . _ / -, got "{value[:200]}"'
            )
    return [f"export {name}={value}" for name, value in found.items()]
