"""A real PyTorch DistributedDataParallel job on gloo, as a lab command.

Started on each host as `python3 -m hostcc.lab.ddp_worker [--layers N] [--overlap]`.  The model
has N linear layers, with a bucket each, whose gradients together make a ring all-reduce send
HOSTCC_BYTES per rank and iteration.  Forward and backward passes are real; the rest of
HOSTCC_COMPUTE_MS is slept, in the place of a GPU's work: before the backward pass, or with
--overlap half of it there and half between the layers of the backward pass, while buckets are
on their way.  Standard input and output are those of the built-in worker.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any

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


class _Compute(torch.autograd.Function):  # type: ignore[misc]
    """Nothing forward; sleeps in the backward pass, in the place of a layer's work."""

    @staticmethod
    def forward(context: Any, values: torch.Tensor, seconds: float) -> torch.Tensor:
        context.seconds = seconds
        return values.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        time.sleep(context.seconds)
        return gradient, None


class Layers(torch.nn.Module):  # type: ignore[misc]
    """Linear layers side by side, one after the other ready in the backward pass."""

    def __init__(self, size: int, count: int, backward_s: float) -> None:
        super().__init__()
        outputs = max(1, size // (INPUTS * count))
        self._pause_s = backward_s / count
        self.linear = torch.nn.ModuleList(
            torch.nn.Linear(INPUTS, outputs, bias=False) for _ in range(count)
        )

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """The loss."""
        losses = []
        for layer in self.linear:
            if self._pause_s:
                batch = _Compute.apply(batch, self._pause_s)
            losses.append(layer(batch).square().mean())
        return torch.stack(losses).sum()


def step(
    model: DistributedDataParallel, optimizer: torch.optim.Optimizer, compute_s: float
) -> None:
    """One training iteration; the sleep stands between forward and backward pass."""
    begin = time.monotonic()
    batch = torch.randn(BATCH, INPUTS, requires_grad=True)
    loss = model(batch)
    time.sleep(max(0.0, begin + compute_s - time.monotonic()))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main() -> None:
    """Train for HOSTCC_ITERATIONS iterations."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=1, help="each is a bucket")
    parser.add_argument("--overlap", action="store_true", help="compute in the backward pass, too")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    compute_s = float(os.environ["HOSTCC_COMPUTE_MS"]) / 1e3
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    size = parameters(int(os.environ["HOSTCC_BYTES"]), ranks)
    backward_s = compute_s / 2 if args.overlap else 0.0
    bucket_mib = size * BYTES_PER_PARAMETER / args.layers / (1 << 20)
    model = DistributedDataParallel(Layers(size, args.layers, backward_s), bucket_cap_mb=bucket_mib)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    say("ready")
    orders = Orders()
    orders.sleep_until(orders.wait_start())
    for number in range(1, int(os.environ["HOSTCC_ITERATIONS"]) + 1):
        start = time.monotonic()
        step(model, optimizer, compute_s - backward_s)
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
