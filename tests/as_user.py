"""`as_user.py UID GROUP WORDS ...`: the command `hostcc WORDS ...` of a user in one group.

Whoever that is need not be able to read this checkout: what the command needs is loaded before.
"""

from __future__ import annotations

import os
import sys

import msgspec

from hostcc.answers import host, status
from hostcc.cli import job, main, run
from hostcc.injob import torch_hook
from hostcc.verbs import inject

LOADED = (msgspec, host, status, job, run, torch_hook, inject)


def become(uid: int, group: int) -> None:
    """Be another user for good."""
    os.setgroups([group])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


if __name__ == "__main__":
    become(int(sys.argv[1]), int(sys.argv[2]))
    sys.exit(main.main(sys.argv[3:]))
