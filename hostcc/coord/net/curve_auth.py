"""Answers a ZeroMQ context's authentication requests: who may connect (ZAP, ZeroMQ RFC 27).

A connection's user id is its CURVE public key. The member that belongs to the key is looked up for
each message, so removing a key from the list also disables open connections.
"""

from __future__ import annotations

from collections.abc import Callable

import zmq

from hostcc.coord.net.socket_reader import SocketReader

ENDPOINT = "inproc://zeromq.zap.01"
DOMAIN = b"hostcc"
CURVE_KEY_BYTES = 32
_VERSION = b"1.0"

Admit = Callable[[str, str], bool]
"""Decides whether (CURVE public key in hexadecimal, address) may connect."""


class CurveAuthenticator:
    """The ZAP handler of one context; create it before any socket binds."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], admit: Admit) -> None:
        self._admit = admit
        self._socket = context.socket(zmq.ROUTER)
        self._socket.linger = 0
        self._socket.bind(ENDPOINT)
        self._reader = SocketReader(self._socket, self._take)

    def close(self) -> None:
        """Stop answering: from now on nobody is admitted."""
        self._reader.close()
        self._socket.close()

    def _take(self) -> float:
        frames = self._socket.recv_multipart(zmq.NOBLOCK)
        split = frames.index(b"") + 1
        envelope, request = frames[:split], frames[split:]
        if len(request) >= 2:
            key = self._checked(request)
            status, text = (b"200", b"OK") if key else (b"400", b"not allowed")
            answer = [_VERSION, request[1], status, text, key.encode(), b""]
            self._socket.send_multipart([*envelope, *answer], zmq.NOBLOCK)
            self._reader.wake()
        return 0.0

    def _checked(self, request: list[bytes]) -> str:
        if len(request) != 7 or request[0] != _VERSION or request[2] != DOMAIN:
            return ""
        address, mechanism, credential = request[3], request[5], request[6]
        if mechanism != b"CURVE" or len(credential) != CURVE_KEY_BYTES:
            return ""
        key = credential.hex()
        return key if self._admit(key, address.decode(errors="replace")) else ""
