#!/usr/bin/env python3
"""The same as `hostcc bench repath-agents`."""

import sys

from hostcc.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["bench", "repath-agents", *sys.argv[1:]]))
