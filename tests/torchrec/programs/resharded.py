"""A training over two ranks whose tables may move to other ranks on the way."""

from __future__ import annotations

from typing import Any

import torch
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import Tensor, nn
from torchrec import EmbeddingBagCollection, KeyedJaggedTensor
from torchrec.distributed import DistributedModelParallel
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.sharding_plan import column_wise, construct_module_sharding_plan, table_wise
from torchrec.distributed.types import ShardingPlan
from torchrec.optim.optimizers import in_backward_optimizer_filter

from emplace.torchrec import reshard
from tests.torchrec.models import collection, config

STEPS, EXAMPLES = 5, 8
RATE = 0.05


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ebc: EmbeddingBagCollection = collection(config("a", 20, 8), config("b", 30, 16), config("c", 10, 4))
        self.top = nn.Linear(28, 1)

    def forward(self, batch: KeyedJaggedTensor) -> Tensor:
        loss: Tensor = (self.top(self.ebc(batch).values()) - 1).square().mean()
        return loss


def module_plan(module: Net, sharder: Any, *, moved: bool) -> ShardingPlan:
    """`a` on one rank, halves of `b` on both, `c` on one; `moved` puts `a` on the other rank, and swaps the halves."""
    of = {
        "a": table_wise(1 if moved else 0, compute_kernel="fused"),
        "b": column_wise([1, 0] if moved else [0, 1], compute_kernel="fused"),
        "c": table_wise(1, compute_kernel="fused"),
    }
    plan = construct_module_sharding_plan(module.ebc, of, sharder=sharder, local_size=2, world_size=2, device_type="cpu")
    return ShardingPlan({"ebc": plan})


def losses(reshard_after: int | None = None) -> list[float]:
    """The loss of each step; with Adagrad, whose state has to move too."""
    torch.manual_seed(0)
    module = Net()
    sharder = EmbeddingBagCollectionSharder(fused_params={"optimizer": EmbOptimType.EXACT_ADAGRAD, "learning_rate": RATE})
    before, after = (module_plan(module, sharder, moved=moved) for moved in (False, True))
    unsharded = Net()
    training = DistributedModelParallel(module, device=torch.device("cpu"), plan=before, sharders=[sharder])
    optimizer = torch.optim.SGD(dict(in_backward_optimizer_filter(training.named_parameters())).values(), lr=0.01)
    values = torch.arange(3 * EXAMPLES) % 10
    batch = KeyedJaggedTensor(keys=["a-ids", "b-ids", "c-ids"], values=values, lengths=torch.ones(len(values), dtype=torch.long))
    found = []
    for step in range(STEPS):
        if step == reshard_after:
            delta = reshard(unsharded, before, after)
            for path in delta:
                training.reshard(delta, path)
        optimizer.zero_grad()
        loss = training(batch)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found
