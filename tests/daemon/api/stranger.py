"""A user who means ill: `stranger.py DEED SOCKET COUNT`, run as whoever may reach the socket.

linger: passes descriptors of TCP connections whose last close takes as long as SO_LINGER says.
fuse: passes a file of a file system of its own, which never answers to its being closed.
pipes: passes as many pipes as a message may carry.  ask: pipelines requests.  connect: connects.
idle: stays connected.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import socket
import struct
import sys
from array import array
from pathlib import Path
from typing import NoReturn

LINGER_S = 20
MOST_DESCRIPTORS = 253
PR_SET_PDEATHSIG = 1
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
FUSE_GETATTR, FUSE_OPEN, FUSE_FLUSH, FUSE_INIT = 3, 14, 25, 26  # include/uapi/linux/fuse.h
FUSE_REQUEST = struct.Struct("=IIQ24x")
"""Length, opcode, unique, of what the kernel asks."""
FUSE_ANSWER = struct.Struct("=IiQ")
"""Length, error, unique, of what comes back."""
FUSE_INIT_OUT = struct.Struct("=IIIIHHIIHHI28x")
FUSE_ATTR_OUT = struct.Struct("=QII6Q3I7I")
FUSE_OPEN_OUT = struct.Struct("=QII")


def lingering() -> tuple[int, list[socket.socket]]:
    """A connection with unsent bytes that nobody will read, and what has to stay open."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    out = socket.socket()
    out.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)
    out.connect(listener.getsockname())
    back, _ = listener.accept()
    out.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            out.send(bytes(65536))
    out.setblocking(True)
    out.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGER_S))
    return out.detach(), [listener, back]


def silent_file(place: Path) -> int:
    """A descriptor whose close waits for a server that says nothing: ours.

    The mount is over `place`, in namespaces of this process.  A child goes on; the process that
    was started serves, and at its end closes of the file return.  It must not hold the file: its
    own close would wait for itself.
    """
    libc, (uid, gid) = ctypes.CDLL(None, use_errno=True), (os.getuid(), os.getgid())
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    for name, text in ("uid_map", f"0 {uid} 1"), ("setgroups", "deny"), ("gid_map", f"0 {gid} 1"):
        Path("/proc/self", name).write_text(text)
    server = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={server},rootmode=100666,user_id=0,group_id=0"
    if libc.mount(b"silent", os.fsencode(place), b"fuse", 0, options.encode()):
        raise OSError(ctypes.get_errno(), f"mount {place}")
    if os.fork():
        serve_silently(server)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.close(server)
    return os.open(place, os.O_RDONLY)


def serve_silently(server: int) -> NoReturn:
    """Answer everything but a close."""
    attributes = FUSE_ATTR_OUT.pack(60, 0, 0, 1, *[0] * 8, 0o100666, 1, 0, 0, 0, 4096, 0)
    answers = {
        FUSE_INIT: FUSE_INIT_OUT.pack(7, 31, 0, 0, 12, 9, 4096, 1, 1, 0, 0),
        FUSE_GETATTR: attributes,
        FUSE_OPEN: FUSE_OPEN_OUT.pack(1, 0, 0),
    }
    while True:
        _, opcode, unique = FUSE_REQUEST.unpack_from(os.read(server, 1 << 20))
        if opcode != FUSE_FLUSH:
            body = answers.get(opcode, b"")
            error = 0 if body else -errno.ENOSYS
            os.write(server, FUSE_ANSWER.pack(FUSE_ANSWER.size + len(body), error, unique) + body)


def descriptors(deed: str, silent: int) -> tuple[list[int], list[socket.socket]]:
    """What a message carries, and what has to stay open for that."""
    if deed == "linger":
        fd, stay = lingering()
        return [fd], stay
    pipes = [*os.pipe()] * (MOST_DESCRIPTORS // 2) if deed == "pipes" else []
    return [silent] if deed == "fuse" else pipes, []


def main(deed: str, path: str, count: int) -> int:
    """What went through."""
    went, kept = 0, []
    silent = silent_file(Path(sys.argv[0])) if deed == "fuse" else -1
    kind = socket.SOCK_DGRAM if "marks" in path else socket.SOCK_STREAM
    for _ in range(count):
        sock = socket.socket(socket.AF_UNIX, kind)
        kept.append(sock)
        fds: list[int] = []
        try:
            sock.connect(path)
            sock.setblocking(False)
            fds, stay = descriptors(deed, silent)
            kept += stay
            if fds:
                rights = array("i", fds)
                sock.sendmsg([b"?\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            elif deed == "ask":
                sock.send(b'{"op":"verify"}\n{"op":"flows"}\n' * 100)
            went += 1
        except OSError:
            if deed == "linger" and fds:  # it was refused: ours would be the last close
                with socket.socket(fileno=os.dup(fds[0])) as again:
                    again.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
        finally:
            for fd in {*fds} - {silent}:  # to close that one would be to wait ourselves
                os.close(fd)
            if deed in ("linger", "fuse", "pipes", "connect"):
                sock.close()
    print(went, flush=True)
    sys.stdin.read()  # what lingers does so until we are told to end
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
