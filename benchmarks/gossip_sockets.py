#!/usr/bin/env python3
"""The same as `hostcc bench gossip-sockets`."""

import sys

from hostcc.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["bench", "gossip-sockets", *sys.argv[1:]]))
