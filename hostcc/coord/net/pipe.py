"""Framed messages between the agent and its transport process, over a socket pair.

Each message is a length of four bytes and its body. Neither end waits for the other: what does not
fit is dropped, and an invalid message closes the pipe.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable

import msgspec

from hostcc.log import get_logger

log = get_logger("gossip")

MAX_FRAME = 1 << 20
"""Bytes of one message."""
MAX_WAITING = 1 << 20
"""Unsent bytes beside those in the kernel's buffer."""
MAX_FRAMES_PER_TURN = 64
"""Messages processed in one turn of the event loop."""
_LENGTH = struct.Struct("=I")


class Pipe(asyncio.Protocol):
    """One end of the socket pair."""

    def __init__(self, take: Callable[[bytes], None], lost: Callable[[str], None]) -> None:
        """`take` receives each message and raises msgspec.MsgspecError for an invalid one. `lost`
        is called once with the reason, which is empty when the other end closed."""
        self._take, self._lost = take, lost
        self._rest, self._unsent = bytearray(), bytearray()
        self._next: asyncio.Handle | None = None
        self._transport: asyncio.Transport | None = None
        self._open = False
        self._why = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin: the socket is connected."""
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._open = transport, True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - its end is what counts
        """Report the end of the connection."""
        self._open = False
        if self._next is not None:
            self._next.cancel()
        self._lost(self._why)

    def data_received(self, data: bytes) -> None:
        """Process received bytes."""
        self._rest += data
        self._run()

    def send(self, data: bytes) -> bool:
        """Send a message; return False when there was no room for it."""
        if not self._open or self._transport is None:
            return False
        size = self._transport.get_write_buffer_size() + len(self._unsent) + len(data)
        if len(data) > MAX_FRAME or size > MAX_WAITING:
            return False
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent += _LENGTH.pack(len(data)) + data
        return True

    def close(self) -> None:
        """Close at once; unsent messages are lost."""
        if self._transport is not None:
            self._transport.abort()

    def _flush(self) -> None:
        # One write for all messages of a turn of the loop: each wakes the other process.
        unsent, self._unsent = self._unsent, bytearray()
        if self._open and self._transport is not None:
            self._transport.write(unsent)

    def _run(self) -> None:
        at, self._next = 0, None
        for _ in range(MAX_FRAMES_PER_TURN):
            frame = self._frame(at)
            if frame is None:
                break
            at += _LENGTH.size + len(frame)
            try:
                self._take(frame)
            except msgspec.MsgspecError as error:
                self._fail(str(error))
            except Exception as error:  # noqa: BLE001 - one message must not end the reading
                log.defect("message not handled", error)
        else:
            self._next = asyncio.get_running_loop().call_soon(self._run)
        del self._rest[:at]
        if self._open and self._transport is not None:
            # Let other tasks run; what arrives meanwhile stays in the kernel's buffer.
            (self._transport.pause_reading if self._next else self._transport.resume_reading)()

    def _frame(self, at: int) -> bytes | None:
        begin = at + _LENGTH.size
        if not self._open or len(self._rest) < begin:
            return None
        (length,) = _LENGTH.unpack_from(self._rest, at)
        if length > MAX_FRAME:
            self._fail(f"expected at most {MAX_FRAME} bytes, got {length}")
            return None
        if len(self._rest) < begin + length:
            return None
        return bytes(self._rest[begin : begin + length])

    def _fail(self, why: str) -> None:
        self._why, self._open = self._why or why, False
        self.close()
