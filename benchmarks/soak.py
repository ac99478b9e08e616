#!/usr/bin/env python3
"""The same as `hostcc bench soak`."""

import sys

from hostcc.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["bench", "soak", *sys.argv[1:]]))
