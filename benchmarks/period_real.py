#!/usr/bin/env python3
"""The same as `hostcc bench period-real`."""

import sys

from hostcc.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["bench", "period-real", *sys.argv[1:]]))
