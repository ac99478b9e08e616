#!/usr/bin/env python3
"""The same as `hostcc bench plan-time`."""

import sys

from hostcc.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["bench", "plan-time", *sys.argv[1:]]))
