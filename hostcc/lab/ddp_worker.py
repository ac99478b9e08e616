"""A real PyTorch DistributedDataParallel job on gloo, as a lab command.

Started on each host as `python3 -m hostcc.lab.ddp_worker`.  The model is one linear layer
whose gradient makes a ring all-reduce send HOSTCC_BYTES per rank and iteration.  Forward and
backward passes are real; the rest of HOSTCC_COMPUTE_MS is slept, in the place of a GPU's
work.  Standard input and output are those of the built-in worker.
"""

from __future__ import annotations

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from hostcc.lab.worker import Orders, say

INPUTS = 64
BYTES_PER_PARAMETER = 4
BATCH = 2


def parameters(ring_bytes: int, ranks: int) -> int:
    """Parameters whose gradient makes every rank of a ring send so many bytes.

    A ring all-reduce sends 2 (n - 1) / n of the gradient.
    """
    gradient = ring_bytes * ranks / (2 * (ranks - 1))
    return max(INPUTS, round(gradient / BYTES_PER_PARAMETER))


def step(
    model: DistributedDataParallel, optimizer: torch.optim.Optimizer, compute_s: float
) -> None:
    """One training iteration; the sleep stands between forward and backward pass."""
    begin = time.monotonic()
    batch = torch.randn(BATCH, INPUTS)
    loss = model(batch).square().mean()
    time.sleep(max(0.0, begin + compute_s - time.monotonic()))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main() -> None:
    """Train for HOSTCC_ITERATIONS iterations."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    compute_s = float(os.environ["HOSTCC_COMPUTE_MS"]) / 1e3
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    size = parameters(int(os.environ["HOSTCC_BYTES"]), ranks)
    layer = torch.nn.Linear(INPUTS, size // INPUTS, bias=False)
    model = DistributedDataParallel(layer)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    say("ready")
    orders = Orders()
    orders.sleep_until(orders.wait_start())
    for number in range(1, int(os.environ["HOSTCC_ITERATIONS"]) + 1):
        start = time.monotonic()
        step(model, optimizer, compute_s)
        end = time.monotonic()
        if rank == 0:
            say(f"iteration {number} {end - start:.6f} {int(start * 1e9)} {int(end * 1e9)}")
    dist.barrier()
    dist.destroy_process_group()
    # Threads of the process group may still run when the interpreter takes the libraries
    # down, and then the C++ run-time aborts a job that has done all its work.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
