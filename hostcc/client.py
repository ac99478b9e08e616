"""Client of the agent's control socket. Imports little: `hostcc run` uses it before every job."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

from hostcc.errors import HostccError, InputError, NoAgentError

DEFAULT_SOCKET = Path("/run/hostcc/control.sock")
SOCKET_VARIABLE = "HOSTCC_SOCKET"
"""Environment variable with another default path."""
MAX_PATH_BYTES = 107
"""Longest path of a UNIX socket; sockaddr_un has 108 bytes with the final zero."""
MAX_RESPONSE_BYTES = 32 * 1024 * 1024


class RefusedError(HostccError):
    """The agent answered with an error; `code` is one of docs/control.md."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def default_socket() -> Path:
    """Return the control socket's path, unless the command line sets one."""
    return Path(os.environ.get(SOCKET_VARIABLE) or DEFAULT_SOCKET)


def root_socket_path(path: Path) -> Path | None:
    """Return the control socket beside `path` that only root can use; None: path too long."""
    beside = path.with_name(f"{path.stem}-root{path.suffix}")
    return beside if len(os.fsencode(beside)) <= MAX_PATH_BYTES else None


def ask(path: Path, op: str, timeout_s: float = 15.0, **fields: object) -> dict[str, Any]:
    """Send one request; return its result.

    Raises NoAgentError if nobody answers in time, InputError if the agent finds the request
    invalid, RefusedError if it refused or failed.
    """
    request = {"v": 1, "op": op, **{k: v for k, v in fields.items() if v is not None}}
    line = _exchange(path, json.dumps(request).encode() + b"\n", timeout_s)
    try:
        answer = json.loads(line)
        if answer["ok"]:
            result: dict[str, Any] = answer["result"]
            return result
        code, message = str(answer["error"]["code"]), str(answer["error"]["message"])
    except (ValueError, KeyError, TypeError):
        raise RefusedError("protocol", f"{path}: expected a hostcc agent's answer") from None
    if code == "bad-request":
        raise InputError(message)
    raise RefusedError(code, message)


def _exchange(path: Path, request: bytes, timeout_s: float) -> bytes:
    deadline = time.monotonic() + timeout_s
    chunks: list[bytes] = []
    size = 0
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(timeout_s)
            _connect(sock, path)
            sock.sendall(request)
            while not chunks or not chunks[-1].endswith(b"\n"):
                sock.settimeout(max(0.001, deadline - time.monotonic()))
                chunk = sock.recv(1 << 16)
                size += len(chunk)
                if not chunk or size > MAX_RESPONSE_BYTES:
                    raise RefusedError("protocol", f"{path}: the answer was cut off")
                chunks.append(chunk)
    except TimeoutError:
        raise NoAgentError(f"the agent at {path} does not answer within {timeout_s:g} s") from None
    except PermissionError:
        raise RefusedError(
            "denied", f"{path}: permission denied: reading needs root or the group hostcc"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise NoAgentError(f"no agent at {path} ({reason}); start one: hostcc agent") from None
    return b"".join(chunks)


def _connect(sock: socket.socket, path: Path) -> None:
    # Root has a socket of its own: readers may have filled the common one.
    if os.geteuid() == 0 and (beside := root_socket_path(path)) is not None:
        try:
            sock.connect(str(beside))
        except (FileNotFoundError, ConnectionRefusedError):
            pass  # an agent of an earlier version, or none
        else:
            return
    sock.connect(str(path))
