"""Devices, addresses and traffic control of this host, asked of the kernel by pyroute2.

It waits inside an event loop of its own, which no thread with a running one can have: every
question gets a thread, which is in the network namespace of the thread that asks.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def ask(question: Callable[[Any], T]) -> T:
    """What `question(ip)` returns; `ip`: a pyroute2.IPRoute.  Raises OSError.

    pyroute2 is loaded with the first question.  It takes ten megabytes and more, so that agents
    ask the kernel themselves (hostcc.system.netlink); commands that end may ask here.
    """
    with ThreadPoolExecutor(1, "rtnetlink") as pool:
        return pool.submit(_asked, question).result()


def _asked(question: Callable[[Any], T]) -> T:
    from pyroute2 import IPRoute, NetlinkError

    try:
        with IPRoute() as ip:
            return question(ip)
    except NetlinkError as error:
        raise OSError(error.code, os.strerror(error.code)) from None
