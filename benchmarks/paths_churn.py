#!/usr/bin/env python3
"""The same as `hostcc bench paths-churn`."""

import sys

from hostcc.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["bench", "paths-churn", *sys.argv[1:]]))
