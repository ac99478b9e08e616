"""Metrics over TLS and for a user: who gets them, renewed certificates, files that are refused."""

from __future__ import annotations

import asyncio
import base64
import ssl
import subprocess
from pathlib import Path

import msgspec
import pytest

from hostcc.answers.status import Status
from hostcc.daemon.api.metrics import MetricsServer
from hostcc.daemon.api.metrics_access import MetricsAccess
from hostcc.errors import InputError
from tests.daemon.api.test_metrics import STATUS

pytestmark = pytest.mark.unit


def certificate(path: Path, name: str = "localhost") -> Path:
    """A key and its own certificate in one file."""
    key, chain = path.with_suffix(".key"), path.with_suffix(".crt")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "1", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}",
         "-keyout", str(key), "-out", str(chain)],
        check=True, capture_output=True,
    )  # fmt: skip
    path.write_text(chain.read_text() + key.read_text())
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificate(tmp_path_factory.mktemp("tls") / "hostcc.pem")


@pytest.fixture
def user(tmp_path: Path) -> Path:
    path = tmp_path / "user"
    path.write_text("prometheus:pass:word\n")
    path.chmod(0o600)
    return path


def basic(text: str) -> str:
    return f"Authorization: Basic {base64.b64encode(text.encode()).decode()}\r\n"


async def get(server: MetricsServer, trusted: ssl.SSLContext, path: str, more: str = "") -> str:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", server.port, ssl=trusted, server_hostname="localhost"
    )
    writer.write(f"GET {path} HTTP/1.1\r\n{more}\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    return answer.partition("\r\n")[0]


def served(access: MetricsAccess) -> MetricsServer:
    status = msgspec.convert(STATUS, Status)
    return MetricsServer("127.0.0.1:0", lambda: status, access=access)


def test_only_the_user_reads_and_only_over_tls(pem: Path, user: Path) -> None:
    async def body() -> None:
        server = served(MetricsAccess(str(pem), str(user)))
        await server.start()
        trusted = ssl.create_default_context(cafile=str(pem))
        assert await get(server, trusted, "/metrics") == "HTTP/1.1 401 Unauthorized"
        wrong = basic("prometheus:pass")
        assert await get(server, trusted, "/metrics", wrong) == "HTTP/1.1 401 Unauthorized"
        right = basic("prometheus:pass:word")
        assert await get(server, trusted, "/metrics", right) == "HTTP/1.1 200 OK"
        assert await get(server, trusted, "/healthz") == "HTTP/1.1 200 OK"
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert b"hostcc" not in await reader.read()
        writer.close()
        await server.close()

    asyncio.run(body())


def test_a_renewed_certificate_is_used_without_a_restart(tmp_path: Path) -> None:
    async def body() -> None:
        path = certificate(tmp_path / "one.pem")
        server = served(MetricsAccess(str(path)))
        await server.start()
        before = ssl.create_default_context(cafile=str(path))
        assert (await get(server, before, "/metrics")).endswith("200 OK")
        path.write_text("nothing")
        assert (await get(server, before, "/metrics")).endswith("200 OK")
        assert (await get(server, before, "/metrics")).endswith("200 OK")  # a wrong one is none
        certificate(path)
        after = ssl.create_default_context(cafile=str(path))
        assert (await get(server, before, "/metrics")).endswith("200 OK")
        assert (await get(server, after, "/metrics")).endswith("200 OK")
        with pytest.raises(ssl.SSLCertVerificationError):
            await get(server, before, "/metrics")
        await server.close()

    asyncio.run(body())


@pytest.mark.parametrize(
    ("text", "mode", "expected"),
    [
        ("", 0o600, "expected one line USER:PASSWORD"),
        ("name", 0o600, "expected one line USER:PASSWORD"),
        ("name:\n", 0o600, "expected one line USER:PASSWORD"),
        (":word\n", 0o600, "expected one line USER:PASSWORD"),
        ("a:b\nc:d\n", 0o600, "expected one line USER:PASSWORD"),
        ("a:" + "b" * 2000, 0o600, "expected at most 1024 bytes"),
        ("a:b\n", 0o640, "others must not read it"),
    ],
)
def test_users_that_are_refused(tmp_path: Path, text: str, mode: int, expected: str) -> None:
    path = tmp_path / "user"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(InputError, match=f"metrics_user: .*{expected}|{expected}"):
        MetricsAccess("", str(path))


def test_certificates_that_are_refused(tmp_path: Path, pem: Path) -> None:
    path = tmp_path / "x.pem"
    with pytest.raises(InputError, match=r"metrics_certificate: .*x\.pem: expected a readable"):
        MetricsAccess(str(path))
    for content in ("", "text", pem.with_suffix(".crt").read_text(), "\0" * 100):
        path.write_text(content)
        path.chmod(0o600)
        with pytest.raises(InputError, match="expected PEM with a certificate and its key"):
            MetricsAccess(str(path))
    path.write_text(pem.read_text())
    path.chmod(0o644)
    with pytest.raises(InputError, match="others must not read it"):
        MetricsAccess(str(path))


@pytest.mark.parametrize(
    "header", ["", "Basic", "Basic !!!", "Bearer x", "Basic cHJvbQ==", "x" * 99]
)
def test_headers_that_say_nothing(user: Path, header: str) -> None:
    access = MetricsAccess("", str(user))
    assert not access.allows(header)
    assert MetricsAccess().allows(header)
