#!/usr/bin/env python3
"""The same as `hostcc bench mltcp-neighbours`."""

import sys

from hostcc.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["bench", "mltcp-neighbours", *sys.argv[1:]]))
