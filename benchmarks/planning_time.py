"""Seconds that planning adds to the start of a TorchRec program: from the call of `plan` to the plan.

    python -m benchmarks.planning_time [TABLESxRANKS ...]

Tables of 1,000 to 10,000,000 rows, 128 wide, on the meta device, for nodes of 8 GPUs. One JSON line each.
"""

from __future__ import annotations

import logging
import math
import sys
import time
import warnings
from typing import Any

import numpy as np
import torch
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import Topology
from torchrec.modules.embedding_configs import EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection

from benchmarks.json_lines import emit
from emplace.torchrec import EmplaceShardingPlanner

SIZES = ("26x8", "26x16", "1000x8", "1000x128")
_ROWS, _DIM, _BATCH, _DEVICES = (1e3, 1e7), 128, 2048, 8


def main() -> None:
    logging.disable(logging.CRITICAL)
    warnings.filterwarnings("ignore")
    for size in sys.argv[1:] or SIZES:
        tables, _, ranks = size.partition("x")
        emit(planned(int(tables), int(ranks)))


def planned(tables: int, ranks: int) -> dict[str, Any]:
    """The line of so many tables on so many ranks."""
    low, high = map(math.log, _ROWS)
    rows = np.exp(np.random.default_rng(0).uniform(low, high, tables)).astype(int)
    configs = [
        EmbeddingBagConfig(name=f"t{number}", num_embeddings=int(each), embedding_dim=_DIM, feature_names=[f"f{number}"])
        for number, each in enumerate(rows)
    ]
    module = torch.nn.Sequential(EmbeddingBagCollection(tables=configs, device=torch.device("meta")))
    topology = Topology(world_size=ranks, local_world_size=min(ranks, _DEVICES), compute_device="cuda")
    planner = EmplaceShardingPlanner(topology, batch_size=_BATCH)
    started = time.perf_counter()
    planner.plan(module, [EmbeddingBagCollectionSharder()])
    seconds = time.perf_counter() - started
    assert planner.last_plan is not None
    return {"tables": tables, "ranks": ranks, "seconds": seconds, "gap": planner.last_plan.gap}


if __name__ == "__main__":
    main()
