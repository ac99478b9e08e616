"""Keys on disk: DIR/host.key (secret), DIR/NAME.pub, and the allow-list DIR/allowed/NAME.pub.

With an authority: DIR/host.cert, and in DIR/authorities NAME.pub and NAME.revoked.

Files are written to a temporary name and renamed, so a reader sees the old or the new one. Files
that others could have read or written are refused.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from hostcc.coord.keys import certificates
from hostcc.coord.keys.certificates import (
    Authority,
    AuthorityKeys,
    Certificate,
    Revocations,
)
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
CERTIFICATE_FILE = "host.cert"
SUFFIX, REVOKED_SUFFIX = ".pub", ".revoked"
TRUST_SUFFIXES = (SUFFIX, REVOKED_SUFFIX)
AUTHORITY_FILE = "authority.key"


def allowed_directory(directory: Path) -> Path:
    """Return the directory of the allow-list below a key directory."""
    return directory / "allowed"


def authority_directory(directory: Path) -> Path:
    """Return the directory of the trusted authorities below a key directory."""
    return directory / "authorities"


def read_authority(path: Path) -> Authority:
    """Return the authority in a public file. Raises InputError."""
    return certificates.parse_authority(read_file(path), str(path))


def read_authority_secret(directory: Path) -> AuthorityKeys:
    """Return the authority kept in a directory. Raises InputError, also when others could read
    it."""
    path = directory / AUTHORITY_FILE
    check_directory(directory)
    return certificates.parse_authority_secret(read_file(path, secret=True), str(path))


def read_signed(path: Path, kind: str) -> bytes:
    """Return the signed bytes in a file of `kind`: "certificate" or "revocations".

    Raises InputError.
    """
    return certificates.parse_signed(read_file(path, most=certificates.MAX_TEXT), kind, str(path))


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
    write_text(public, public_text(host.member), 0o644)
    allow(directory, host.member)
    write_text(directory / HOST_FILE, secret_text(host), 0o600)
    return public


def write_authority(directory: Path, authority: AuthorityKeys) -> Path:
    """Write an authority's secret and public file; return the public one. Raises InputError."""
    make_directory(directory, 0o700)
    public = directory / f"{authority.public.name}{SUFFIX}"
    write_text(public, certificates.authority_text(authority.public), 0o644)
    text = certificates.authority_secret_text(authority)
    write_text(directory / AUTHORITY_FILE, text, 0o600)
    return public


def trust(directory: Path, authority: Authority) -> Path:
    """Trust an authority on this host; return its file. Raises InputError."""
    path = authority_directory(directory) / f"{authority.name}{SUFFIX}"
    make_directory(path.parent)
    write_text(path, certificates.authority_text(authority), 0o644)
    return path


def write_certificate(path: Path, found: Certificate) -> Path:
    """Write a certificate; return its file. Raises InputError."""
    write_text(path, certificates.certificate_text(found), 0o644)
    return path


def write_revocations(path: Path, found: Revocations) -> Path:
    """Write a list of revoked certificates; return its file. Raises InputError."""
    make_directory(path.parent)
    write_text(path, certificates.revocations_text(found), 0o644)
    return path


def allow(directory: Path, member: Member) -> Path:
    """Put a member on the allow-list; return its file. Raises InputError."""
    allowed = allowed_directory(directory)
    make_directory(allowed)
    path = allowed / f"{member.name}{SUFFIX}"
    write_text(path, public_text(member), 0o644)
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


def make_directory(path: Path, mode: int = 0o755) -> None:
    """Create a directory that only its owner can write to, unless it exists. Raises InputError."""
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    check_directory(path)


def read_file(path: Path, secret: bool = False, most: int = MAX_FILE_BYTES) -> bytes:
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
        raw = os.read(fd, most + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    finally:
        os.close(fd)
    if len(raw) > most:
        raise input_file.too_long(str(path), most)
    return raw


def write_text(path: Path, text: str, mode: int) -> None:
    """Replace a file at once, with what is on disk. Raises InputError."""
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
