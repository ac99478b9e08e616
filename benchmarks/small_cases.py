#!/usr/bin/env python3
"""The same as `hostcc bench small-cases`."""

import sys

from hostcc.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["bench", "small-cases", *sys.argv[1:]]))
