#!/usr/bin/env python3
"""The same as `hostcc bench meter-churn`."""

import sys

from hostcc.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["bench", "meter-churn", *sys.argv[1:]]))
