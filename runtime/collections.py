"""The collections that look up a model's tables: an EmbeddingBagCollection or an EmbeddingCollection for each of its modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torchrec.modules.embedding_configs import DataType as TorchRecDataType
from torchrec.modules.embedding_configs import EmbeddingBagConfig, EmbeddingConfig, PoolingType
from torchrec.modules.embedding_modules import EmbeddingBagCollection, EmbeddingCollection
from torchrec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor

from emplace.placement.model import DataType, ModelSpec, Table
from emplace.placement.modules import ONE_MODULE, Module, Pooling

_DATA_TYPES = {
    DataType.FP32: TorchRecDataType.FP32,
    DataType.FP16: TorchRecDataType.FP16,
    DataType.BF16: TorchRecDataType.BF16,
    DataType.INT8: TorchRecDataType.INT8,
}
_POOLING = {Pooling.SUM: PoolingType.SUM, Pooling.MEAN: PoolingType.MEAN}


def spec_modules(spec: ModelSpec) -> tuple[Module, ...]:
    """The modules of a model: one, where it names none."""
    return spec.modules or (ONE_MODULE,)


def attach_collections(model: nn.Module, spec: ModelSpec, device: torch.device) -> None:
    """Make the spec's collections submodules of `model`, each at its path."""
    for module in spec_modules(spec):
        *above, name = module.path.split(".")
        parent = model
        for part in above:
            if not hasattr(parent, part):
                parent.add_module(part, nn.Module())
            parent = parent.get_submodule(part)
        parent.add_module(name, _collection(module, [table for table in spec.tables if spec.module_of(table) is module], device))


def _collection(module: Module, tables: list[Table], device: torch.device) -> nn.Module:
    configs = [_config(table) for table in tables]
    if module.pooling is Pooling.NONE:
        return EmbeddingCollection(tables=[EmbeddingConfig(**each) for each in configs], device=device)  # type: ignore[no-any-return]
    bags = [EmbeddingBagConfig(**each, pooling=_POOLING[module.pooling]) for each in configs]
    return EmbeddingBagCollection(tables=bags, is_weighted=module.weighted, device=device)  # type: ignore[no-any-return]


def _config(table: Table) -> dict[str, Any]:
    """What TorchRec's configurations of pooled and other tables have alike."""
    return {
        "name": table.name,
        "num_embeddings": table.num_embeddings,
        "embedding_dim": table.embedding_dim,
        "feature_names": [feature.name for feature in table.features],
        "data_type": _DATA_TYPES[table.data_type],
    }


def ids_for(module: Module, sparse: KeyedJaggedTensor) -> KeyedJaggedTensor:
    """The batch's ids as the module takes them: weights only where it has some, for an exchange sends all that is there."""
    if sparse.weights_or_none() is None or module.weighted:
        return sparse
    return KeyedJaggedTensor(keys=sparse.keys(), values=sparse.values(), lengths=sparse.lengths())


def vectors_of(modules: Sequence[Module], looked_up: Sequence[Any]) -> dict[str, Tensor]:
    """One vector for each example [B, columns] of every feature, by name, of what the modules' collections put out: a KeyedTensor, or a
    mapping of JaggedTensors. A sequence's are the means of its vectors; 0 where it has none."""
    found: dict[str, Tensor] = {}
    for module, each in zip(modules, looked_up, strict=True):
        # A sharded collection orders its keys by sharding type, so vectors are fetched by name.
        found |= each.to_dict() if module.is_pooled else _means(each)
    return found


def _means(sequences: Mapping[str, JaggedTensor]) -> dict[str, Tensor]:
    return {feature: _mean(sequence.values(), sequence.lengths()) for feature, sequence in sequences.items()}


def _mean(vectors: Tensor, lengths: Tensor) -> Tensor:
    """[B, columns] means of the vectors [ids, columns] of each example."""
    example = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
    sums = torch.zeros(len(lengths), vectors.shape[1], device=vectors.device).index_add(0, example, vectors.float())
    return sums / lengths.clamp(min=1).unsqueeze(1)
