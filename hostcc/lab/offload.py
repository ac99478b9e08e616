"""Turn off segmentation offload of an interface, so that the bottleneck sees single packets.

Between namespaces a burst of several packets otherwise travels as one buffer: one drop would
be counted for all of them, and the queue would move in steps.
"""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct

from hostcc.lab.errors import LabError

SIOCETHTOOL = 0x8946
ETHTOOL_STSO = 0x1F
ETHTOOL_SGRO = 0x2C


def disable_segmentation(device: str) -> None:
    """Switch TSO and GRO off for a device of the calling thread's namespace.

    Raises LabError when the device refuses.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        for command in (ETHTOOL_STSO, ETHTOOL_SGRO):
            value = ctypes.create_string_buffer(struct.pack("II", command, 0))
            request = struct.pack("16sP16x", device.encode(), ctypes.addressof(value))
            try:
                fcntl.ioctl(handle, SIOCETHTOOL, request)
            except OSError as error:
                raise LabError(f"{device}: offloads: {error.strerror}") from error
