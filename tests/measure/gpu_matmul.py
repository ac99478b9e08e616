"""A child of test_gpu_real.py: matrix products of known FLOP on a real GPU.

Arguments: type, size, seconds.  Prints JSON: FLOP done, and from when to when
(CLOCK_MONOTONIC, seconds).  The data are random, as zeros draw less power.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def main() -> None:
    import torch as untyped

    torch: Any = untyped
    kind, size, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = (torch.randn(size, size, device="cuda").to(getattr(torch, kind)) for _ in range(2))
    out = a @ b
    torch.cuda.synchronize()
    time.sleep(1.0)  # the watcher sees the process before the work begins
    products, start = 0, time.monotonic()
    while time.monotonic() - start < seconds:
        for _ in range(4):
            torch.matmul(a, b, out=out)
        products += 4
        torch.cuda.synchronize()
    end = time.monotonic()
    time.sleep(0.5)
    print(json.dumps({"flop": products * 2.0 * size**3, "start": start, "end": end}))


if __name__ == "__main__":
    main()
