"""ModelSpec: a recommendation model as a planner sees it (the DLRM shape: tables, features, dense layers)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, model_validator

from placement.access import Access, AccessDistribution, access_distribution
from placement.document import Document, broken_rule
from placement.lengths import FeatureLength, LengthDistribution, length_distribution

MAX_TABLES = 10_000
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_:-]{0,199}$")]
Count = Annotated[int, Field(strict=True, gt=0)]
Width = Annotated[int, Field(strict=True, gt=0, le=1_000_000)]


class DataType(StrEnum):
    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"
    INT8 = "int8"


class Optimizer(StrEnum):
    SGD = "sgd"
    ADAGRAD = "adagrad"
    ROWWISE_ADAGRAD = "rowwise_adagrad"
    ADAM = "adam"


class Interaction(StrEnum):
    CAT = "cat"
    DOT = "dot"
    DCN = "dcn"


class ShardingType(StrEnum):
    """TorchRec's sharding types, verbatim."""

    TABLE_WISE = "table_wise"
    COLUMN_WISE = "column_wise"
    ROW_WISE = "row_wise"
    TABLE_ROW_WISE = "table_row_wise"
    TABLE_COLUMN_WISE = "table_column_wise"
    GRID_SHARD = "grid_shard"
    DATA_PARALLEL = "data_parallel"


class ComputeKernel(StrEnum):
    """TorchRec's compute kernels, verbatim."""

    FUSED = "fused"
    FUSED_UVM = "fused_uvm"
    FUSED_UVM_CACHING = "fused_uvm_caching"
    DENSE = "dense"


class Tier(StrEnum):
    """Where a table's bytes live: device memory, the node's system memory, or a remote server's."""

    HBM = "hbm"
    DDR = "ddr"
    REMOTE = "remote"


class Feature(Document):
    """One sparse feature: a list of ids per example, looked up in its table and summed."""

    name: Name
    length: FeatureLength
    truncate: Annotated[int, Field(strict=True, gt=0)] | None = None

    @property
    def lengths(self) -> LengthDistribution:
        return length_distribution(self.length, self.truncate)


class Constraints(Document):
    """What a user allows for one table; absent means anything."""

    tiers: Annotated[tuple[Tier, ...], Field(min_length=1)] | None = None
    sharding_types: Annotated[tuple[ShardingType, ...], Field(min_length=1)] | None = None
    compute_kernels: Annotated[tuple[ComputeKernel, ...], Field(min_length=1)] | None = None
    ranks: Annotated[tuple[Annotated[int, Field(strict=True, ge=0)], ...], Field(min_length=1)] | None = None


class Table(Document):
    """An embedding table of `num_embeddings` x `embedding_dim`."""

    name: Name
    num_embeddings: Annotated[int, Field(strict=True, gt=0, le=10**12)]
    embedding_dim: Annotated[int, Field(strict=True, gt=0, le=65_536, multiple_of=4)]
    data_type: DataType = DataType.FP32
    features: Annotated[tuple[Feature, ...], Field(min_length=1)]
    access: Access = "uniform"
    constraints: Constraints = Constraints()

    @cached_property
    def pooling_factor(self) -> float:
        """Mean lookups per example, over all features of the table."""
        return sum(feature.lengths.mean for feature in self.features)

    @property
    def accesses(self) -> AccessDistribution:
        return access_distribution(self.access, self.num_embeddings)


class DcnLayers(Document):
    """The low-rank cross layers of DCN v2."""

    num_layers: Width = 3
    low_rank_dim: Width = 512


class ModelSpec(Document):
    """The whole model. `bottom_mlp` and `top_mlp` are layer widths without their inputs."""

    schema_version: Literal[1]
    name: Name
    description: str | None = None
    source: str | None = None
    local_batch_size: Annotated[int, Field(strict=True, gt=0, le=10_000_000)]
    dense_features: Annotated[int, Field(strict=True, ge=0, le=1_000_000)]
    bottom_mlp: tuple[Width, ...]
    top_mlp: Annotated[tuple[Width, ...], Field(min_length=1)]
    interaction: Interaction
    dcn: DcnLayers | None = None
    optimizer: Optimizer = Optimizer.ROWWISE_ADAGRAD
    tables: Annotated[tuple[Table, ...], Field(min_length=1, max_length=MAX_TABLES)]

    @model_validator(mode="after")
    def _names_are_unique(self) -> ModelSpec:
        tables = ((f"/tables/{index}/name", table.name) for index, table in enumerate(self.tables))
        features = (
            (f"/tables/{index}/features/{number}/name", feature.name)
            for index, table in enumerate(self.tables)
            for number, feature in enumerate(table.features)
        )
        _refuse_duplicates(tables)
        _refuse_duplicates(features)
        return self

    @model_validator(mode="after")
    def _dense_part_fits(self) -> ModelSpec:
        if self.bottom_mlp and not self.dense_features:
            raise broken_rule("/bottom_mlp", self.bottom_mlp, "must be empty in a model without dense_features")
        if self.dcn is not None and self.interaction is not Interaction.DCN:
            raise broken_rule("/dcn", self.dcn, "is only for interaction dcn")
        if self.interaction is Interaction.DOT:
            widths = {table.embedding_dim for table in self.tables}
            if self.dense_features:
                widths.add(self.bottom_mlp[-1] if self.bottom_mlp else self.dense_features)
            if len(widths) > 1:
                found = ", ".join(map(str, sorted(widths)))
                rule = f"dot needs every embedding_dim and the last width of bottom_mlp to be equal, they are {found}; use cat, or make them equal"
                raise broken_rule("/interaction", self.interaction.value, rule)
        return self

    @cached_property
    def num_features(self) -> int:
        return sum(len(table.features) for table in self.tables)


def _refuse_duplicates(names: Iterable[tuple[str, str]]) -> None:
    """`names` are (where, name)."""
    seen: dict[str, str] = {}
    for where, name in names:
        if name in seen:
            raise broken_rule(where, name, f"must be unique, {seen[name]} has the same")
        seen[name] = where
