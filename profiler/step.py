"""A whole DistributedModelParallel training step of a very small model: what is left after its stages is overhead."""

from __future__ import annotations

import torch
import torch.distributed as dist
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.sharding_plan import construct_module_sharding_plan, table_wise
from torchrec.distributed.types import ShardingPlan
from torchrec.modules.embedding_configs import EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from placement.dense_part import dense_part
from placement.model import ModelSpec


class _SmallModel(torch.nn.Module):
    def __init__(self, spec: ModelSpec, device: torch.device) -> None:
        super().__init__()
        configs = [
            EmbeddingBagConfig(
                name=table.name,
                num_embeddings=table.num_embeddings,
                embedding_dim=table.embedding_dim,
                feature_names=[feature.name for feature in table.features],
            )
            for table in spec.tables
        ]
        self.ebc = EmbeddingBagCollection(tables=configs, device=torch.device("meta"))
        shapes = dense_part(spec)
        self.bottom = _mlp(shapes.bottom).to(device)
        self.top = _mlp(shapes.top)[:-1].to(device)

    def forward(self, dense: torch.Tensor, sparse: KeyedJaggedTensor, labels: torch.Tensor) -> torch.Tensor:
        joined = torch.cat((self.bottom(dense), self.ebc(sparse).values()), dim=1)
        return torch.nn.functional.binary_cross_entropy_with_logits(self.top(joined).squeeze(1), labels)


def _mlp(shapes: tuple[tuple[int, int], ...]) -> torch.nn.Sequential:
    return torch.nn.Sequential(*[layer for shape in shapes for layer in (torch.nn.Linear(*shape), torch.nn.ReLU())])


class StepExercise:
    """One training step, tables dealt to the ranks in turn. All of it is timed as `forward`."""

    def __init__(self, spec: ModelSpec, device: torch.device) -> None:
        fused = {"optimizer": EmbOptimType.EXACT_ROWWISE_ADAGRAD, "learning_rate": 0.01}
        sharder = EmbeddingBagCollectionSharder(fused_params=fused)
        model = _SmallModel(spec, device)
        ranks = dist.get_world_size()
        places = {table.name: table_wise(rank=index % ranks) for index, table in enumerate(spec.tables)}
        plan = construct_module_sharding_plan(
            model.ebc, places, sharder=sharder, local_size=ranks, world_size=ranks, device_type=device.type
        )
        self._dmp = DistributedModelParallel(model, device=device, plan=ShardingPlan({"ebc": plan}), sharders=[sharder])
        layers = [value for value in self._dmp.parameters() if not hasattr(value, "_in_backward_optimizers")]
        self._optimizer = torch.optim.Adagrad(layers, lr=0.01)
        self._spec, self._device = spec, device

    def prepare(self, repetition: int) -> None:
        generator = torch.Generator().manual_seed(repetition)
        examples = self._spec.local_batch_size
        features = [(table.num_embeddings, feature.name) for table in self._spec.tables for feature in table.features]
        ids = torch.cat([torch.randint(rows, (examples,), generator=generator) for rows, _ in features])
        lengths = torch.ones(len(ids), dtype=torch.int64)
        sparse = KeyedJaggedTensor(keys=[name for _, name in features], values=ids, lengths=lengths).to(self._device)
        dense = torch.rand(examples, self._spec.dense_features, generator=generator).to(self._device)
        self._batch = (dense, sparse, torch.zeros(examples, device=self._device))

    def forward(self) -> None:
        self._optimizer.zero_grad()
        self._dmp(*self._batch).backward()
        self._optimizer.step()

    def backward(self) -> None:
        return
