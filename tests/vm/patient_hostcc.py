"""In the guest: `hostcc`, whose waits and budgets are those of a processor that is emulated.

Those in the product are for real ones.  With its budget a plan of three jobs would wait for most of
a minute after the views of their start, and a job whose agent is at a plan would run without it.
"""

from __future__ import annotations

import sys

from hostcc.cli import run
from hostcc.cli.main import main
from hostcc.daemon.planning import cpu_budget

if __name__ == "__main__":
    cpu_budget.MAX_CPU_SHARE = 0.5
    run.PATIENCE_S = 90.0
    sys.exit(main(sys.argv[1:]))
