"""Who may read the metrics: TLS, and a user with a password, both from files."""

from __future__ import annotations

import base64
import binascii
import hmac
import ssl
from pathlib import Path

from hostcc.errors import InputError
from hostcc.log import get_logger
from hostcc.system import ownership, whole_file

log = get_logger("metrics")

MAX_USER_BYTES = 1024
SECRET_MODE = 0o077
"""Bits that a file with a password or a key must not have."""


class MetricsAccess:
    """What a connection needs before it gets the metrics.

    The certificate's file is read again when it has changed, so that renewing it needs no restart.
    """

    def __init__(self, certificate: str = "", user: str = "") -> None:
        """`certificate`: a PEM file with the chain and its key; `user`: a file with USER:PASSWORD.

        Raises InputError, which names the key and the file.
        """
        self._certificate = Path(certificate) if certificate else None
        self.context: ssl.SSLContext | None = None
        """None: without TLS."""
        self._wanted = _credentials(Path(user)) if user else b""
        self._changed = 0
        if self._certificate is not None:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.minimum_version = ssl.TLSVersion.TLSv1_2
            self._load(self._certificate)

    def refresh(self) -> None:
        """Read the certificate's file if it has changed; one that is wrong leaves the old one."""
        if self._certificate is None:
            return
        try:
            if self._certificate.stat().st_mtime_ns != self._changed:
                self._load(self._certificate)
        except (OSError, InputError) as error:
            log.warning("the old certificate goes on", reason=str(error))

    def allows(self, authorization: str) -> bool:
        """Check an Authorization header (RFC 7617); empty: there was none."""
        if not self._wanted:
            return True
        scheme, _, given = authorization.strip().partition(" ")
        try:
            told = base64.b64decode(given.strip(), validate=True)
        except (binascii.Error, ValueError):
            return False
        return scheme.lower() == "basic" and hmac.compare_digest(told, self._wanted)

    def _load(self, path: Path) -> None:
        key = "agent.metrics_certificate"
        _check_secret(key, path)
        assert self.context is not None
        changed = path.stat().st_mtime_ns
        try:
            self.context.load_cert_chain(path, password="")
        except (ssl.SSLError, OSError, ValueError) as error:
            words = getattr(error, "reason", None) or error.__class__.__name__
            raise InputError(
                f"{key}: {path}: expected PEM with a certificate and its key, got: {words}"
            ) from None
        self._changed = changed


def _credentials(path: Path) -> bytes:
    key = "agent.metrics_user"
    _check_secret(key, path)
    raw = whole_file.read(path, MAX_USER_BYTES)
    line = (raw or b"").strip()
    name, found, password = line.partition(b":")
    if not name or not found or not password or b"\n" in line:
        raise InputError(f"{key}: {path}: expected one line USER:PASSWORD")
    return line


def _check_secret(key: str, path: Path) -> None:
    try:
        ownership.check_owner(path, path.stat(), SECRET_MODE)
    except InputError as error:
        raise InputError(f"{key}: {error}") from None
    except OSError as error:
        words = f"expected a readable file, got: {error.strerror}"
        raise InputError(f"{key}: {path}: {words}") from None
