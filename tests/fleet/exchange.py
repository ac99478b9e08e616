"""A job in a guest: bytes to and fro over one connection, for ever; ends when it breaks."""

import socket
import time

listener = socket.create_server(("127.0.0.1", 0))
with socket.create_connection(listener.getsockname()) as near, listener.accept()[0] as far:
    while True:
        for sender, receiver in ((near, far), (far, near)):
            sender.sendall(bytes(1000))
            left = 1000
            while left:
                got = len(receiver.recv(left))
                if not got:
                    raise SystemExit("the connection has ended")
                left -= got
        time.sleep(0.5)
