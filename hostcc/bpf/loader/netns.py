"""Runs a function in another network namespace."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hostcc.bpf.loader.errors import system_error

T = TypeVar("T")
CLONE_NEWNET = 0x40000000


def in_netns(where: int | str | Path | None, function: Callable[[], T]) -> T:
    """Return what `function()` returns in the network namespace `where`.

    `where` is a descriptor or path of a namespace (/proc/PID/ns/net, /run/netns/NAME), or None for
    our own.  It runs in a thread of its own that ends afterwards: a thread's namespace is not the
    process's, so nothing else is affected.  Raises BpfError when the namespace cannot be entered,
    and whatever `function` raises.
    """
    if where is None:
        return function()
    result: list[T] = []
    failure: list[BaseException] = []

    def body() -> None:
        try:
            _enter(where)
            result.append(function())
        except BaseException as error:  # noqa: BLE001 - carried over to the caller
            failure.append(error)

    thread = threading.Thread(target=body, name="netns")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return result[0]


def _enter(where: int | str | Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    what = f"cannot enter the network namespace {where}"
    try:
        fd = where if isinstance(where, int) else os.open(where, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise system_error(what, error.errno or 0) from error
    try:
        if libc.setns(fd, CLONE_NEWNET) != 0:
            raise system_error(what, ctypes.get_errno())
    finally:
        if not isinstance(where, int):
            os.close(fd)
