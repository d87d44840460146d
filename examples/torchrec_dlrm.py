"""Train a small DLRM with TorchRec, its tables placed by Emplace.

    torchrun --standalone --nproc-per-node 2 examples/torchrec_dlrm.py

It runs on GPUs where there are some, else on CPUs over gloo. The two lines that differ from a program with TorchRec's own planner are
marked. `--check` trains an unsharded copy beside it, and fails if they end up in different places.
"""

from __future__ import annotations

import argparse
import os

import torch
import torch.distributed as dist
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import Tensor, nn
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from torchrec.distributed import DistributedModelParallel
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import ParameterConstraints, Topology
from torchrec.optim.optimizers import in_backward_optimizer_filter

from emplace.torchrec import EmplaceShardingPlanner  # line 1: in place of EmbeddingShardingPlanner
from unsharded import Unsharded

BATCH_SIZE, DENSE_FEATURES, DIM, LEARNING_RATE, STEPS = 256, 13, 16, 2.0, 8
TABLES = {"user": 20_000, "item": 50_000, "category": 300, "country": 200}
IDS = {"user": 1, "item": 5, "category": 2, "country": 1}
"""Ids an example."""


class ClickModel(nn.Module):
    """A small DLRM."""

    def __init__(self, table_device: torch.device) -> None:
        super().__init__()
        tables = [
            EmbeddingBagConfig(name=name, num_embeddings=rows, embedding_dim=DIM, feature_names=[name]) for name, rows in TABLES.items()
        ]
        self.sparse = EmbeddingBagCollection(tables=tables, device=table_device)
        self.bottom = nn.Sequential(nn.Linear(DENSE_FEATURES, 64), nn.ReLU(), nn.Linear(64, DIM), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(DIM * (1 + len(TABLES)), 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, dense: Tensor, ids: KeyedJaggedTensor, labels: Tensor) -> Tensor:
        pooled = self.sparse(ids).to_dict()
        joined = torch.cat([self.bottom(dense), *(pooled[name] for name in TABLES)], dim=1)
        return nn.functional.binary_cross_entropy_with_logits(self.top(joined).squeeze(1), labels)


def make_constraints() -> dict[str, ParameterConstraints]:
    """How many ids each feature has; and that the two large tables are not copied to every rank."""
    constraints = {name: ParameterConstraints(pooling_factors=[float(count)]) for name, count in IDS.items()}
    for name in ("user", "item"):
        constraints[name].sharding_types = ["table_wise", "column_wise", "row_wise"]
    return constraints


def make_batch(step: int, rank: int, device: torch.device) -> tuple[Tensor, KeyedJaggedTensor, Tensor]:
    """A batch of random examples, the same for the same step and rank."""
    random = torch.Generator().manual_seed(1000 * step + rank)
    dense = torch.rand(BATCH_SIZE, DENSE_FEATURES, generator=random)
    values = [torch.randint(TABLES[name], (BATCH_SIZE * count,), generator=random) for name, count in IDS.items()]
    lengths = torch.repeat_interleave(torch.tensor(list(IDS.values())), BATCH_SIZE)
    ids = KeyedJaggedTensor(keys=list(IDS), values=torch.cat(values), lengths=lengths)
    labels = (dense.sum(dim=1) > DENSE_FEATURES / 2).float()
    return dense.to(device), ids.to(device), labels.to(device)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small DLRM whose tables Emplace places.")
    parser.add_argument("--check", action="store_true", help="compare with an unsharded copy")
    check = parser.parse_args().check
    rank, on_gpu = int(os.environ["RANK"]), torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")

    torch.manual_seed(0)
    model = ClickModel(torch.device("meta"))
    sharders = [EmbeddingBagCollectionSharder(fused_params={"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": LEARNING_RATE})]
    topology = Topology(world_size=dist.get_world_size(), local_world_size=int(os.environ["LOCAL_WORLD_SIZE"]), compute_device=device.type)
    planner = EmplaceShardingPlanner(  # line 2: in place of EmbeddingShardingPlanner
        topology=topology,
        batch_size=BATCH_SIZE,
        constraints=make_constraints(),
    )
    plan = planner.collective_plan(model, sharders, dist.group.WORLD)
    if rank == 0:
        print(plan)
        print(f"predicted step {planner.last_plan.step_time_us:,.0f} us, at most {planner.last_plan.gap:.1%} over the best")

    sharded = DistributedModelParallel(model, device=device, plan=plan, sharders=sharders)
    # Dense layers, and tables that are data_parallel: other tables are updated in the backward pass.
    rest = dict(in_backward_optimizer_filter(sharded.named_parameters()))
    optimizer = torch.optim.SGD(rest.values(), lr=LEARNING_RATE)
    unsharded = None
    if check:
        whole = ClickModel(device).to(device)
        unsharded = Unsharded(whole, sharded, lambda step, rank: make_batch(step, rank, device), LEARNING_RATE)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = sharded(*make_batch(step, rank, device))
        loss.backward()
        optimizer.step()
        if unsharded is not None:
            unsharded.train(step)
        if rank == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    if unsharded is not None:
        unsharded.compare(sharded)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
