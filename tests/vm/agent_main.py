"""In the guest: `hostcc agent`, whose plans may take more of a processor that is emulated.

The budget of plans is for real ones.  With it a plan of three jobs would wait for most of a minute
after the views of their start.
"""

from __future__ import annotations

import sys

from hostcc.cli.main import main
from hostcc.daemon.planning import cpu_budget

if __name__ == "__main__":
    cpu_budget.MAX_CPU_SHARE = 0.5
    sys.exit(main(["agent", *sys.argv[1:]]))
