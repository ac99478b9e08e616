"""Prints the names of BPF programs in this kernel that are hostcc's, by the bpf system call."""

import ctypes
import struct

SYS_BPF = 321
GET_NEXT_ID, GET_FD_BY_ID, GET_INFO = 11, 13, 15
NAME_AT = 64
OURS = ("hcc", "steer_", "meter", "mark_")

libc = ctypes.CDLL(None, use_errno=True)


def bpf(command: int, words: bytes) -> tuple[int, bytes]:
    """What it returned, and the attributes after it."""
    attributes = ctypes.create_string_buffer(words, 128)
    returned = libc.syscall(SYS_BPF, command, attributes, 128)
    return returned, attributes.raw


number = 0
while True:
    failed, raw = bpf(GET_NEXT_ID, struct.pack("<I", number))
    if failed:
        break
    number = struct.unpack_from("<4xI", raw)[0]
    fd, _ = bpf(GET_FD_BY_ID, struct.pack("<I", number))
    if fd < 0:
        continue
    info = ctypes.create_string_buffer(256)
    bpf(GET_INFO, struct.pack("<IIQ", fd, 256, ctypes.addressof(info)))
    name = info.raw[NAME_AT : NAME_AT + 16].rstrip(b"\0").decode()
    if name.startswith(OURS):
        print(name)
