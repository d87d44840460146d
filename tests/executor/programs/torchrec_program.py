"""A TorchRec program that knows nothing of Emplace: loads plan.torchrec.json, trains a step under it, and dumps what it trained under.

Started by torchrun, in the folder of the file. The tables are those of tests/executor/plans.py's small model.
"""

import json
import os
import sys
from dataclasses import asdict, is_dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from torchrec.distributed import DistributedModelParallel, types

# docs/how-to/torchrec.md, to the letter:
build = lambda node: getattr(types, node.pop("@class"))(**node) if "@class" in node else node  # noqa: E731
modules = json.load(open("plan.torchrec.json"), object_hook=build)["plan"]  # noqa: SIM115
plan = types.ShardingPlan({path: types.EmbeddingModuleShardingPlan(tables) for path, tables in modules.items()})

plain = lambda value: asdict(value) if is_dataclass(type(value)) else str(value)  # noqa: E731
ranks = {"world_size": int(os.environ["WORLD_SIZE"]), "local_world_size": int(os.environ["LOCAL_WORLD_SIZE"])}
theirs = json.dumps(ranks | {"plan": plan.plan}, default=plain)

TABLES = {
    "user": (20011, ["user", "friends"]),
    "item": (5000, ["clicks"]),
    "page": (30001, ["pages"]),
    "country": (37, ["country"]),
    "tag": (1000, ["tags"]),
}


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        configs = [
            EmbeddingBagConfig(name=name, num_embeddings=rows, embedding_dim=16, feature_names=features)
            for name, (rows, features) in TABLES.items()
        ]
        self.ebc = EmbeddingBagCollection(tables=configs, device=torch.device("meta"))

    def forward(self, sparse: KeyedJaggedTensor) -> torch.Tensor:
        pooled: torch.Tensor = self.ebc(sparse).values()
        return pooled.square().sum()


def main() -> None:
    dist.init_process_group("gloo")
    dmp = DistributedModelParallel(Model(), device=torch.device("cpu"), plan=plan)
    keys = [feature for _, features in TABLES.values() for feature in features]
    dmp(KeyedJaggedTensor(keys=keys, values=torch.arange(len(keys) * 8) % 37, lengths=torch.ones(len(keys) * 8).int())).backward()
    held = [name for name, value in dmp.state_dict().items() if not hasattr(value, "local_shards") or value.local_shards()]
    Path(f"held-{dist.get_rank()}.txt").write_text("\n".join(held))
    Path("theirs.json").write_text(theirs)
    assert not [name for name in sys.modules if name.partition(".")[0] == "emplace"]
    dist.barrier()
    dist.destroy_process_group()


main()
