"""`python -m benchmarks NAME` is `hostcc bench NAME`."""

import sys

from hostcc.cli.main import main

sys.exit(main(["bench", *sys.argv[1:]]))
