"""Twelve modules, each with the whole document that a person would write for it by hand: described.yaml beside this file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import nn
from torchrec.distributed.embedding import EmbeddingCollectionSharder
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.planner import ParameterConstraints
from torchrec.modules.embedding_configs import DataType, PoolingType
from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward
from torchrec.optim.optimizers import Adagrad
from torchrec.optim.rowwise_adagrad import RowWiseAdagrad

from emplace.placement.model import ModelSpec
from emplace.placement.reading import from_data
from emplace.torchrec import describe
from tests.torchrec.models import META, Model, collection, config, model, sequence, sequences

pytestmark = pytest.mark.torch

BY_HAND: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "described.yaml").read_text())["models"]

Case = tuple[nn.Module, dict[str, Any]]


def _with_adam() -> Case:
    module = model(config("user"))
    apply_optimizer_in_backward(torch.optim.Adam, module.sparse.parameters(), {"lr": 0.1})
    return module, {}


def _with_optimizers_of_tables() -> Case:
    module = model(config("user"), config("page"))
    bags: Any = module.sparse["ebc"]
    apply_optimizer_in_backward(RowWiseAdagrad, bags.embedding_bags["user"].parameters(), {"lr": 0.1})
    apply_optimizer_in_backward(Adagrad, bags.embedding_bags["page"].parameters(), {"lr": 0.1})
    return module, {}


def _both() -> Case:
    fused = {"optimizer": EmbOptimType.EXACT_ROWWISE_ADAGRAD}
    sharders = [EmbeddingBagCollectionSharder(fused_params=fused), EmbeddingCollectionSharder(fused_params=fused, use_index_dedup=True)]
    lengths = {"item": ParameterConstraints(pooling_factors=[28.5, 1.0], output_dtype=DataType.FP16)}
    module = Model(profile=collection(config("user")), history=sequences(sequence("item", dim=256, features=["seen", "candidate"])))
    return module, {"sharders": sharders, "constraints": lengths, "batch_size": 1024}


def _weighted_means() -> Case:
    return Model(weighted=collection(config("user"), is_weighted=True), means=collection(config("page", pooling=PoolingType.MEAN))), {}


def _nested() -> Case:
    inner = nn.ModuleDict({"tower": nn.ModuleDict({"ebc": collection(config("user", 70, 8))}), "over": nn.Linear(8, 4, device=META)})
    return nn.ModuleDict({"outer": inner}), {}


CONSTRAINTS = {
    "user": ParameterConstraints(sharding_types=["row_wise", "grid_shard"], compute_kernels=["fused"], pooling_factors=[3.0]),
    "page": ParameterConstraints(min_partition=8, pooling_factors=[0.5]),
}

CASES: dict[str, Callable[[], Case]] = {
    "bags": lambda: (model(config("user", 5000, 32)), {"batch_size": 2048}),
    "bags by themselves": lambda: (collection(config("user")), {}),
    "sequences": lambda: (sequences(sequence("clicks")), {}),
    "both": _both,
    "nested": _nested,
    "a shared table": lambda: (model(config("user", features=["me", "friends"])), {}),
    "a shared feature": lambda: (model(config("user", features=["ids"]), config("page", features=["ids"])), {}),
    "weighted means": _weighted_means,
    "fp16": lambda: (model(config("user", data_type=DataType.FP16)), {"compute_device": "cpu"}),
    "adam": _with_adam,
    "optimizers of tables": _with_optimizers_of_tables,
    "constraints": lambda: (model(config("user"), config("page")), {"constraints": CONSTRAINTS}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_module_is_described_as_by_hand(name: str) -> None:
    module, arguments = CASES[name]()
    found = describe(module, **arguments)
    assert found.description
    by_hand = from_data({"schema_version": 1, "source": found.source, **BY_HAND[name]}, ModelSpec, source=name)
    assert found.model_copy(update={"description": None}).to_data() == by_hand.to_data()


def test_there_are_twelve() -> None:
    assert len(CASES) == 12
    assert CASES.keys() == BY_HAND.keys()
