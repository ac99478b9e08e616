#!/usr/bin/env python3
"""The same as `hostcc bench shim`."""

import sys

from hostcc.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["bench", "shim", *sys.argv[1:]]))
