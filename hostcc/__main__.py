"""Runs `hostcc` as `python -m hostcc`."""

import sys

from hostcc.cli.main import main

sys.exit(main())
