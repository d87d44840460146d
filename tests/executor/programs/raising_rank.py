"""Rank 1 raises; rank 0 waits for it and only sees a lost connection."""

import os

import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record


@record
def main() -> None:
    dist.init_process_group("gloo")
    if int(os.environ["RANK"]) == 1:
        raise ValueError("no such row")
    dist.barrier()


main()
