#!/usr/bin/env python3
"""The same as `hostcc bench leafspine`."""

import sys

from hostcc.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["bench", "leafspine", *sys.argv[1:]]))
