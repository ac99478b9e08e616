"""A thread that takes messages off the marks socket, because that may block."""

from __future__ import annotations

import asyncio
import os
import select
import threading
from contextlib import suppress

from hostcc.log import get_logger
from hostcc.measure.marks import MarkReceiver, MarkRequest

log = get_logger("marks")
THREAD_END_S = 1.0
"""Seconds that the thread has to end; one that a sender holds up ends when the sender lets it."""


class MarkThread:
    """Has what comes admitted in the loop that made it: `most` messages until `refill` is called.

    The rest waits in the socket, and its senders try again.
    """

    def __init__(self, receiver: MarkReceiver, most: int) -> None:
        self._receiver, self._most = receiver, most
        self._loop = asyncio.get_running_loop()
        self._left = most
        self._changed = threading.Condition()
        self._ended = False
        self._wake = os.eventfd(0, os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="marks", daemon=True)
        self._thread.start()

    def refill(self) -> None:
        """So many messages may come again."""
        with self._changed:
            self._left = self._most
            self._changed.notify()

    def close(self) -> None:
        """Take no more; the thread closes the socket."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        os.eventfd_write(self._wake, 1)
        self._thread.join(THREAD_END_S)
        if self._thread.is_alive():
            log.warning("a sender of marks holds up their thread: left behind")
        else:
            os.close(self._wake)

    def _run(self) -> None:
        try:
            poll = select.poll()
            poll.register(self._receiver.fileno(), select.POLLIN)
            poll.register(self._wake, select.POLLIN)
            while self._may_take():
                poll.poll()
                with suppress(BlockingIOError):
                    shown = self._receiver.take()
                    with self._changed:
                        self._left -= 1
                    with suppress(RuntimeError):  # the loop has ended
                        self._loop.call_soon_threadsafe(self._admit, shown)
        except OSError as error:
            log.failure("marks are no longer taken", reason=str(error))
        finally:
            self._receiver.close_socket()

    def _may_take(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._left > 0)
            return not self._ended

    def _admit(self, shown: MarkRequest) -> None:
        if not self._ended:
            self._receiver.admit(shown)
        elif shown.fd >= 0:
            os.close(shown.fd)
