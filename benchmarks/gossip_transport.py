#!/usr/bin/env python3
"""The same as `hostcc bench gossip-transport`."""

import sys

from hostcc.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["bench", "gossip-transport", *sys.argv[1:]]))
