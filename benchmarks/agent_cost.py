#!/usr/bin/env python3
"""The same as `hostcc bench agent-cost`."""

import sys

from hostcc.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["bench", "agent-cost", *sys.argv[1:]]))
