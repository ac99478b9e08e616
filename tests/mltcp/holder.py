"""A process that holds the adapter as an agent does, to be killed: holder.py TAG STALE_S GROUP."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from hostcc.mltcp.kernel import MltcpKernel
from hostcc.mltcp.params import JobParams, Variant


def main() -> None:
    tag, stale_s, group = sys.argv[1:]
    kernel = MltcpKernel(tag, list(Variant), float(stale_s))
    kernel.set_job(1, JobParams(name="held"))
    kernel.attach_cgroup(1, Path(group))
    print("up", flush=True)
    while True:
        kernel.beat()
        time.sleep(0.02)


if __name__ == "__main__":
    main()
