#!/usr/bin/env python3
"""The same as `hostcc bench period`."""

import sys

from hostcc.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["bench", "period", *sys.argv[1:]]))
