"""Train a small sequence recommender with TorchRec, its tables placed by Emplace.

    torchrun --standalone --nproc-per-node 2 examples/hstu_sequence.py

A user's history is not pooled: every item that they saw and what they did there are vectors of their own (EmbeddingCollection), which go
through blocks of gated attention as in HSTU (Zhai et al., arXiv 2402.17152); who they are is pooled (EmbeddingBagCollection). Two features
of very different length look up in the table of items. It runs on GPUs where there are some, else on CPUs over gloo. `--check` trains
an unsharded copy beside it, and fails if they end up in different places.
"""

from __future__ import annotations

import argparse
import os

import torch
import torch.distributed as dist
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import Tensor, nn
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, EmbeddingCollection, EmbeddingConfig, KeyedJaggedTensor
from torchrec.distributed import DistributedModelParallel
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import ParameterConstraints, Topology
from torchrec.optim.optimizers import in_backward_optimizer_filter
from torchrec.sparse.jagged_tensor import JaggedTensor

from emplace.torchrec import EmplaceShardingPlanner
from unsharded import Unsharded

BATCH_SIZE, DIM, BLOCKS, LONGEST, LEARNING_RATE, STEPS = 64, 16, 2, 48, 0.5, 6
ROWS = {"user": 5_000, "country": 200, "item": 40_000, "action": 50}
LENGTHS = {"user": (1, 1), "country": (1, 1), "seen": (8, LONGEST), "done": (8, LONGEST), "candidate": (1, 1)}
"""The least and the most ids an example. `seen` and `candidate` look up in the table of items; `seen` and `done` are equally long."""
POOLING = {"user": [1.0], "country": [1.0], "item": [28.0, 1.0], "action": [28.0]}
"""Ids an example on average, of each table's features."""


class GatedAttention(nn.Module):
    """A block of HSTU: attention through SiLU in place of softmax, gated, and added to what came in."""

    def __init__(self) -> None:
        super().__init__()
        self.projected, self.out = nn.Linear(DIM, 4 * DIM), nn.Linear(DIM, DIM)
        self.norm = nn.LayerNorm(DIM)

    def forward(self, sequence: Tensor, mask: Tensor) -> Tensor:
        gate, value, query, key = nn.functional.silu(self.projected(self.norm(sequence))).chunk(4, dim=-1)
        scores = nn.functional.silu(query @ key.transpose(1, 2)) / LONGEST
        attended = (scores * mask.unsqueeze(1)) @ value
        result: Tensor = sequence + self.out(attended * gate)
        return result


class Recommender(nn.Module):
    """Whether a user takes to a candidate, given what they saw."""

    def __init__(self, table_device: torch.device) -> None:
        super().__init__()
        bags = [
            EmbeddingBagConfig(name=name, num_embeddings=ROWS[name], embedding_dim=DIM, feature_names=[name])
            for name in ("user", "country")
        ]
        history = [
            EmbeddingConfig(name="item", num_embeddings=ROWS["item"], embedding_dim=DIM, feature_names=["seen", "candidate"]),
            EmbeddingConfig(name="action", num_embeddings=ROWS["action"], embedding_dim=DIM, feature_names=["done"]),
        ]
        self.profile = EmbeddingBagCollection(tables=bags, device=table_device)
        self.history = EmbeddingCollection(tables=history, device=table_device)
        self.blocks = nn.ModuleList(GatedAttention() for _ in range(BLOCKS))
        self.top = nn.Sequential(nn.Linear(4 * DIM, 32), nn.SiLU(), nn.Linear(32, 1))

    def forward(self, ids: KeyedJaggedTensor, labels: Tensor) -> Tensor:
        profile, history = self.profile(ids).to_dict(), self.history(ids)
        sequence = padded(history["seen"]) + padded(history["done"])
        lengths = history["seen"].lengths()
        mask = (torch.arange(LONGEST, device=lengths.device) < lengths.unsqueeze(1)).float()
        for block in self.blocks:
            sequence = block(sequence, mask)
        mean = (sequence * mask.unsqueeze(2)).sum(dim=1) / lengths.unsqueeze(1)
        joined = torch.cat([profile["user"], profile["country"], mean, history["candidate"].values()], dim=1)
        return nn.functional.binary_cross_entropy_with_logits(self.top(joined).squeeze(1), labels)


def padded(sequence: JaggedTensor) -> Tensor:
    """[examples, LONGEST, DIM] the vectors of each example, and zeros after the last."""
    lengths = sequence.lengths()
    place = torch.arange(LONGEST, device=lengths.device) < lengths.unsqueeze(1)
    return torch.zeros(len(lengths), LONGEST, DIM, device=lengths.device).masked_scatter(place.unsqueeze(2), sequence.values())


def make_batch(step: int, rank: int, device: torch.device) -> tuple[KeyedJaggedTensor, Tensor]:
    """A batch of random examples, the same for the same step and rank."""
    random = torch.Generator().manual_seed(1000 * step + rank)
    history = torch.randint(LENGTHS["seen"][0], LONGEST + 1, (BATCH_SIZE,), generator=random)
    lengths = [history if most > 1 else torch.ones_like(history) for _, most in LENGTHS.values()]
    tables = {"seen": "item", "candidate": "item", "done": "action"}
    values = [
        torch.randint(ROWS[tables.get(name, name)], (int(each.sum()),), generator=random)
        for name, each in zip(LENGTHS, lengths, strict=True)
    ]
    ids = KeyedJaggedTensor(keys=list(LENGTHS), values=torch.cat(values), lengths=torch.cat(lengths))
    return ids.to(device), torch.randint(2, (BATCH_SIZE,), generator=random).float().to(device)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small sequence recommender whose tables Emplace places.")
    parser.add_argument("--check", action="store_true", help="compare with an unsharded copy")
    check = parser.parse_args().check
    rank, on_gpu = int(os.environ["RANK"]), torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")

    torch.manual_seed(0)
    model = Recommender(torch.device("meta"))
    fused = {"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": LEARNING_RATE}
    sharders = [EmbeddingBagCollectionSharder(fused_params=dict(fused)), EmbeddingCollectionSharder(fused_params=dict(fused))]
    planner = EmplaceShardingPlanner(
        topology=Topology(
            world_size=dist.get_world_size(), local_world_size=int(os.environ["LOCAL_WORLD_SIZE"]), compute_device=device.type
        ),
        batch_size=BATCH_SIZE,
        constraints={name: ParameterConstraints(pooling_factors=factors) for name, factors in POOLING.items()},
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
        whole = Recommender(device).to(device)
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
