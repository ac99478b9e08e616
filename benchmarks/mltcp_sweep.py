#!/usr/bin/env python3
"""The same as `hostcc bench mltcp-sweep`."""

import sys

from hostcc.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["bench", "mltcp-sweep", *sys.argv[1:]]))
