"""What ranks tell each other besides training."""

from __future__ import annotations

import torch
import torch.distributed as dist


def largest_of_ranks(value: float) -> float:
    """The largest of all ranks' values, on every rank."""
    holder = torch.tensor([value], dtype=torch.float64, device="cuda" if dist.get_backend() == "nccl" else "cpu")
    dist.all_reduce(holder, op=dist.ReduceOp.MAX)
    return float(holder.item())
