"""Keys on disk: DIR/host.key (secret), DIR/NAME.pub, and the allow-list DIR/allowed/NAME.pub.

Files are written to a temporary name and renamed, so a reader sees the old or the new one. Files
that others could have read or written are refused.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from hostcc.coord.keys.identity import (
    MAX_FILE_BYTES,
    HostKeys,
    Member,
    parse_public,
    parse_secret,
    public_text,
    secret_text,
)
from hostcc.errors import InputError
from hostcc.system import input_file
from hostcc.system.ownership import check_directory, check_owner

HOST_FILE = "host.key"
SUFFIX = ".pub"


def allowed_directory(directory: Path) -> Path:
    """Return the directory of the allow-list below a key directory."""
    return directory / "allowed"


def read_secret(directory: Path) -> HostKeys:
    """Return this host's own keys. Raises InputError, also when others could read the file."""
    path = directory / HOST_FILE
    check_directory(directory)
    return parse_secret(read_file(path, secret=True), str(path))


def read_public(path: Path) -> Member:
    """Return the member described by a public file. Raises InputError."""
    return parse_public(read_file(path), str(path))


def write_host(directory: Path, host: HostKeys) -> Path:
    """Write the secret file, the public file and the host's entry in its own allow-list.

    Returns the public file. Public parts are written first, so that the host never uses a key that
    others cannot know. Raises InputError.
    """
    make_directory(directory)
    public = directory / f"{host.name}{SUFFIX}"
    _write(public, public_text(host.member), 0o644)
    allow(directory, host.member)
    _write(directory / HOST_FILE, secret_text(host), 0o600)
    return public


def allow(directory: Path, member: Member) -> Path:
    """Put a member on the allow-list; return its file. Raises InputError."""
    allowed = allowed_directory(directory)
    make_directory(allowed)
    path = allowed / f"{member.name}{SUFFIX}"
    _write(path, public_text(member), 0o644)
    return path


def revoke(directory: Path, name: str) -> None:
    """Remove a member from the allow-list. Raises InputError when it is not on it."""
    path = allowed_directory(directory) / f"{name}{SUFFIX}"
    try:
        path.unlink()
    except FileNotFoundError:
        raise InputError(f"{path}: expected a member of the allow-list, got none") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


def make_directory(path: Path) -> None:
    """Create a directory that only its owner can write to, unless it exists. Raises InputError."""
    try:
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    check_directory(path)


def read_file(path: Path, secret: bool = False) -> bytes:
    """Return a small regular file that others cannot write (nor read, if secret). Raises
    InputError."""
    try:
        # Not blocking: somebody may have put a pipe there.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{path}: expected a readable file, got: {reason}") from None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise InputError(f"{path}: expected a regular file")
        check_owner(path, found, 0o077 if secret else 0o022)
        raw = os.read(fd, MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    finally:
        os.close(fd)
    if len(raw) > MAX_FILE_BYTES:
        raise input_file.too_long(str(path), MAX_FILE_BYTES)
    return raw


def _write(path: Path, text: str, mode: int) -> None:
    try:
        fd, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(fd, "wb") as file:
                os.fchmod(fd, mode)
                file.write(text.encode())
                file.flush()
                os.fsync(fd)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
