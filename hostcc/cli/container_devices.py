"""Devices for containers, by the configuration: `hostcc environment --cdi`."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hostcc.errors import HostccError, InputError
from hostcc.foreign import in_json
from hostcc.verbs import cdi, inject

if TYPE_CHECKING:
    from hostcc.config.schema import Config

_PATH = re.compile(r"/[A-Za-z0-9._/-]*\Z")
"""Of a folder for the loader, for which spaces and colons end a path."""
_PACKAGE = Path(__file__).parents[1]


def specification(config: Config, copy_to: Path | None) -> str:
    """Return the specification as JSON.

    `copy_to`: where on the host the files are put that jobs load; None: they stay where they are.
    Raises InputError for folders that containers must not get, HostccError without the files.
    """
    inject.check()
    agent = config.agent
    made = cdi.specification(
        cdi.Places(
            files=copy_to or _PACKAGE,
            plan=Path(config.rdma.plan),
            counts=Path(config.rdma.counts),
            semaphores=Path(config.pcie.semaphores),
            marks=config.marks_path,
            private=(Path(agent.run_dir), agent.state_dir, config.socket_path),
        )
    )
    if copy_to is not None:
        _copy(cdi.FILES, copy_to)
    return in_json(json.dumps(made, indent=2))


def _copy(names: Sequence[str], to: Path) -> None:
    if not _PATH.match(str(to)):
        raise InputError(f'--copy-to: expected an absolute path of A-Z a-z 0-9 . _ / -, got "{to}"')
    for name in names:
        target = to / name
        # A process that has the old file keeps it.
        fresh = target.with_name(f"{target.name}.new")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(_PACKAGE / name, fresh)
            fresh.chmod(0o644)
            fresh.replace(target)
        except OSError as error:
            raise HostccError(f"{target}: {error.strerror}") from None
