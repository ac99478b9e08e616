#!/usr/bin/env python3
"""The same as `hostcc bench probe-paths`."""

import sys

from hostcc.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["bench", "probe-paths", *sys.argv[1:]]))
