"""`python -m hostcc` is `hostcc`."""

import sys

from hostcc.cli.main import main

sys.exit(main())
