"""What the shim costs UCX, in instructions: `python -m tests.vm.clients_cost [RUNS]`.

Boots the virtual machine, whose clock counts instructions, and prints values and ratios.
"""

from __future__ import annotations

import json
import sys

from hostcc.system.cc import build
from hostcc.verbs.build import SHIM
from tests.vm import machine


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    build(SHIM)
    guest = machine.boot([sys.executable, "-m", "tests.vm.clients_guest"])
    try:
        print(json.dumps(guest.ask(f"cost={runs}")["cost"], indent=1))
    finally:
        guest.close()


if __name__ == "__main__":
    main()
