"""Binds UNIX sockets at paths: permissions from the first moment, nothing else overwritten."""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path

from hostcc.errors import HostccError

PROBE_S = 1.0
FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""Errors of `accept` that pass when somebody releases something."""
# include/uapi/asm-generic/socket.h, Linux 6.16 and later.
_SO_PASSRIGHTS = 83


def refuse_descriptors(sock: socket.socket) -> bool:
    """Have the kernel refuse messages with descriptors, also on sockets accepted from this one.

    Whoever closes the last descriptor of a TCP socket waits as long as its SO_LINGER says, and a
    descriptor in an unread message is closed by whoever reads or closes the socket.  False where
    the kernel cannot: the reader has to be a thread that nobody waits for.
    """
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_PASSRIGHTS, 0)
    except OSError:
        return False
    return True


def bind(
    path: Path, kind: int, what: str, *, group: int | None = None, everybody: bool = False
) -> socket.socket:
    """Bind a non-blocking socket: for everybody, for a group (mode 0660), or for us alone.

    `kind`: SOCK_STREAM or SOCK_DGRAM.  Replaces a socket that nobody has open, and refuses to
    touch anything else.  Raises HostccError, which begins with `what` the socket is.
    """
    _make_way(path, kind, what)
    made = socket.socket(socket.AF_UNIX, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        os.fchmod(made.fileno(), 0o600)  # Linux gives the file the mode that the socket has
        made.bind(str(path))
        if everybody or group is not None:
            _give(path, -1 if group is None else group, 0o666 if everybody else 0o660)
    except OSError as error:
        made.close()
        raise HostccError(f"{what} {path}: {error.strerror or error}") from None
    return made


def _give(path: Path, group: int, mode: int) -> None:
    # Through a descriptor: what is at the path may be exchanged for a link meanwhile.
    fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.chown(f"/proc/self/fd/{fd}", -1, group)
        os.chmod(f"/proc/self/fd/{fd}", mode)  # noqa: PTH101
    finally:
        os.close(fd)


def _make_way(path: Path, kind: int, what: str) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise HostccError(f"{what} {path}: {error.strerror}") from None
    if not stat.S_ISSOCK(mode):
        raise HostccError(
            f"{what} {path}: something else is there, not a socket; remove it, or set another path"
        )
    with socket.socket(socket.AF_UNIX, kind) as probe:
        probe.settimeout(PROBE_S)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except OSError:  # of another kind, or too busy to answer: somebody has it open
            pass
    raise HostccError(f"{what} {path}: another program listens there; stop it, or set another path")
