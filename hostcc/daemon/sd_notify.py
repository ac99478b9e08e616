"""Tells systemd how the agent is, without libsystemd: sd_notify(3) is one datagram."""

from __future__ import annotations

import os
import socket


class Notifier:
    """Sends to $NOTIFY_SOCKET; does nothing when systemd did not start us."""

    def __init__(self, environ: dict[str, str] | None = None) -> None:
        env = dict(os.environ) if environ is None else environ
        name = env.get("NOTIFY_SOCKET", "")
        self._address = "\0" + name[1:] if name.startswith("@") else name
        mine = env.get("WATCHDOG_PID", "") in {"", str(os.getpid())}
        usec = env.get("WATCHDOG_USEC", "")
        self.watchdog_s = int(usec) / 1e6 if mine and usec.isdigit() else 0.0
        """systemd kills us after so many seconds of silence; 0: never."""

    def ready(self, status: str) -> None:
        """Start-up, or a reload, is complete."""
        self._send(f"READY=1\nSTATUS={status}")

    def reloading(self, now_usec: int) -> None:
        """A reload begins; `now_usec` is CLOCK_MONOTONIC in microseconds."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={now_usec}")

    def alive(self) -> None:
        """The main loop turns."""
        if self.watchdog_s:
            self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """Shutdown begins."""
        self._send("STOPPING=1")

    def _send(self, text: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
                sock.sendto(text.encode(), self._address)
        except OSError:
            return  # systemd is busy or gone: never a reason to fail
