"""Short-lived jobs of one host: a process whose children are jobs, with a connection each.

    churn_load take ADDRESS PORT
    churn_load jobs CONTROL_SOCKET ADDRESS PORT ALIVE LONG PERIOD_S BYTES SEED PREFIX

`jobs` keeps ALIVE children at a time; the part LONG of them live for LONG_S, the others for
SHORT_S.  A line of JSON for each connection when its first byte has left ("open") and when all of
it has arrived ("close", with the error, if any).  After the end of standard input: no new ones.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import select
import signal
import socket
import struct
import sys
import time
import zlib
from contextlib import suppress
from pathlib import Path

import hostcc.mark
from hostcc.client import ask
from hostcc.errors import HostccError

LONG_S, SHORT_S = (12.0, 18.0), (0.2, 2.0)
BLOCK = 1 << 16
TOTAL = struct.Struct("!QI")
"""What the receiver says at the end: bytes, CRC-32."""
PATIENCE_S = 120.0


async def take(address: str, port: int) -> None:
    """Receive every connection, and answer with what has come."""

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        count = check = 0
        with suppress(OSError):
            while data := await reader.read(4 * BLOCK):
                count, check = count + len(data), zlib.crc32(data, check)
            writer.write(TOTAL.pack(count, check))
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(one, address, port)
    say(event="ready")
    async with server:
        await server.serve_forever()


def jobs(
    control: Path, to: tuple[str, int], alive: int, long: float, burst: tuple[float, int],
    seed: int, prefix: str,
) -> None:  # fmt: skip
    """Fork jobs until standard input ends, then wait for the last."""
    draw, number, living = random.Random(seed), 0, set[int]()
    while True:
        ended, _ = os.waitpid(-1, os.WNOHANG) if living else (0, 0)
        living.discard(ended)
        more = not select.select([sys.stdin], [], [], 0.0 if ended else 0.02)[0]
        if not more:
            break
        if len(living) >= alive:
            continue
        number += 1
        lives = draw.random() < long
        life_s = draw.uniform(*(LONG_S if lives else SHORT_S))
        if pid := os.fork():
            living.add(pid)
            continue
        job(control, to, f"{prefix}-{number}", lives, life_s, burst)
    for pid in living:
        os.kill(pid, signal.SIGTERM)
    for pid in living:
        os.waitpid(pid, 0)


def job(
    control: Path, to: tuple[str, int], name: str, lives: bool, life_s: float,
    burst: tuple[float, int],
) -> None:  # fmt: skip
    """One job, and the end of this process."""
    wanted = [math.inf]
    signal.signal(signal.SIGTERM, lambda *_: wanted.__setitem__(0, 0.0))
    trouble = ""
    try:
        enter(control, name)
        with socket.create_connection(to, PATIENCE_S) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            wanted[0] = min(wanted[0], time.monotonic() + life_s)
            sent = send(sock, name, lives, wanted, burst)
            sock.shutdown(socket.SHUT_WR)
            got = b""
            while data := sock.recv(TOTAL.size):
                got += data
        if got != TOTAL.pack(*sent):
            trouble = f"sent {sent}, arrived {got.hex() or 'nothing'}"
    except (OSError, HostccError) as error:
        trouble = f"{type(error).__name__}: {error}"
    say(event="close", job=name, trouble=trouble)
    os._exit(0)


def enter(control: Path, name: str) -> None:
    """Become a job of the agent, as `hostcc run` does."""
    answer = ask(control, "register", PATIENCE_S, job=name, join=True, flops=1e12)
    if not answer.get("joined"):
        (Path(answer["cgroup"]) / "cgroup.procs").write_text("0")
    os.environ["HOSTCC_MARK_SOCKET"] = str(answer["marks"] or "")


def send(
    sock: socket.socket, name: str, lives: bool, ends: list[float], burst: tuple[float, int]
) -> tuple[int, int]:
    """Bursts, an iteration each, until the time in `ends`; bytes and their CRC."""
    period_s, size = burst
    block, count, check = bytearray(os.urandom(BLOCK)), 0, 0
    due = time.monotonic()
    while time.monotonic() < ends[0]:
        for _ in range(max(1, size // BLOCK)):
            block[:8] = count.to_bytes(8, "big")
            sock.sendall(block)
            check = zlib.crc32(block, check)
            if not count:
                port = sock.getsockname()[1]
                say(event="open", job=name, port=port, lives=lives, at=due)
            count += BLOCK
        hostcc.mark.iteration()
        due = max(due + period_s, time.monotonic())
        time.sleep(max(0.0, min(due, ends[0]) - time.monotonic()))
    return count, check


def say(**words: object) -> None:
    """One line, in one write: children share the pipe."""
    os.write(1, json.dumps(words).encode() + b"\n")


def main(words: list[str]) -> None:
    """See the module."""
    if words[0] == "take":
        asyncio.run(take(words[1], int(words[2])))
        return
    control, address, port, alive, long, period_s, size, seed, prefix = words[1:]
    jobs(
        Path(control), (address, int(port)), int(alive), float(long),
        (float(period_s), int(size)), int(seed), prefix,
    )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
