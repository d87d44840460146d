"""ModelSpec: a recommendation model as a planner sees it (the DLRM shape: tables, features, dense layers)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from emplace.placement.access import Access, AccessDistribution, access_distribution
from emplace.placement.document import Document, broken_rule
from emplace.placement.id_order import IdOrder, block_hit_rate
from emplace.placement.lengths import FeatureLength, LengthDistribution, length_distribution
from emplace.placement.modules import ONE_MODULE, Module, Path, narrowed, refuse_unsound_modules
from emplace.placement.sums import add_up
from emplace.placement.terms import DataType as DataType
from emplace.placement.terms import ShardingType as ShardingType

MAX_TABLES = 10_000
NAME_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_:-]{0,199}$"
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
EmbeddingDim = Annotated[int, Field(strict=True, gt=0, le=65_536, multiple_of=4)]
BatchSize = Annotated[int, Field(strict=True, gt=0, le=10_000_000)]
Width = Annotated[int, Field(strict=True, gt=0, le=1_000_000)]


class Optimizer(StrEnum):
    SGD = "sgd"
    ADAGRAD = "adagrad"
    ROWWISE_ADAGRAD = "rowwise_adagrad"
    ADAM = "adam"

    @property
    def values_per_weight(self) -> int:
        """Values of state for each value of a row. A row-wise state is one value a row, whatever its width."""
        return {Optimizer.ADAGRAD: 1, Optimizer.ADAM: 2}.get(self, 0)

    @property
    def of_dense_layers(self) -> Optimizer:
        """What dense layers are trained with: they have no rows, so row-wise Adagrad is element-wise there."""
        return Optimizer.ADAGRAD if self is Optimizer.ROWWISE_ADAGRAD else self


class Interaction(StrEnum):
    CAT = "cat"
    DOT = "dot"
    DCN = "dcn"


class ComputeKernel(StrEnum):
    """TorchRec's compute kernels, verbatim."""

    FUSED = "fused"
    FUSED_UVM = "fused_uvm"
    FUSED_UVM_CACHING = "fused_uvm_caching"
    DENSE = "dense"


class Tier(StrEnum):
    """Where a table's bytes live: device memory, the node's system memory, or a remote server's.

    `ddr` is system memory that a device reads over its link, `cpu` the same memory where the node's CPUs look up.
    """

    HBM = "hbm"
    DDR = "ddr"
    CPU = "cpu"
    REMOTE = "remote"


class Feature(Document):
    """One sparse feature: a list of ids per example, looked up in its table and pooled, or not pooled, as its module says."""

    name: Name
    length: FeatureLength
    truncate: Annotated[int, Field(strict=True, gt=0)] | None = None

    @cached_property
    def lengths(self) -> LengthDistribution:
        return length_distribution(self.length, self.truncate)


class Pin(Document):
    """One placement and no other. `ranks` are those of the shards: pieces of columns from left to right, in each the blocks
    of rows in order; row_wise and data_parallel take every trainer and need none."""

    sharding_type: ShardingType
    compute_kernel: ComputeKernel | None = None
    """Absent: dense with data_parallel, else fused."""
    cache_load_factor: Annotated[float, Field(strict=True, gt=0, le=1)] | None = None
    ranks: Annotated[tuple[Annotated[int, Field(strict=True, ge=0)], ...], Field(min_length=1)] | None = None

    @property
    def kernel(self) -> ComputeKernel:
        replicated = self.sharding_type is ShardingType.DATA_PARALLEL
        return self.compute_kernel or (ComputeKernel.DENSE if replicated else ComputeKernel.FUSED)

    @model_validator(mode="after")
    def _parts_agree(self) -> Pin:
        everywhere = self.sharding_type in (ShardingType.ROW_WISE, ShardingType.DATA_PARALLEL)
        if self.ranks is None and not everywhere:
            raise broken_rule("/ranks", "", f"is required for {self.sharding_type}")
        if self.ranks is not None and len(set(self.ranks)) != len(self.ranks):
            raise broken_rule("/ranks", list(self.ranks), "must name each rank once")
        if self.ranks is not None and self.sharding_type is ShardingType.TABLE_WISE and len(self.ranks) > 1:
            raise broken_rule("/ranks", list(self.ranks), "table_wise takes one rank")
        if (self.kernel is ComputeKernel.DENSE) != (self.sharding_type is ShardingType.DATA_PARALLEL):
            raise broken_rule("/compute_kernel", self.kernel.value, "dense goes with data_parallel and with no other type")
        if (self.kernel is ComputeKernel.FUSED_UVM_CACHING) != (self.cache_load_factor is not None):
            raise broken_rule("/cache_load_factor", self.cache_load_factor, "goes with fused_uvm_caching and with no other kernel")
        return self


class Constraints(Document):
    """What a user allows for one table; absent means anything."""

    tiers: Annotated[tuple[Tier, ...], Field(min_length=1)] | None = None
    sharding_types: Annotated[tuple[ShardingType, ...], Field(min_length=1)] | None = None
    compute_kernels: Annotated[tuple[ComputeKernel, ...], Field(min_length=1)] | None = None
    ranks: Annotated[tuple[Annotated[int, Field(strict=True, ge=0)], ...], Field(min_length=1)] | None = None
    pin: Pin | None = None

    @model_validator(mode="after")
    def _pin_stands_alone(self) -> Constraints:
        if self.pin is not None and len(self.to_data()) > 1:
            raise broken_rule("/pin", "", "says it all: remove the other constraints of this table, or the pin")
        return self


class Table(Document):
    """An embedding table of `num_embeddings` x `embedding_dim`."""

    name: Name
    num_embeddings: Annotated[int, Field(strict=True, gt=0, le=10**12)]
    embedding_dim: EmbeddingDim
    data_type: DataType = DataType.FP32
    module: Path | None = None
    """Absent: the model's only module."""
    features: Annotated[tuple[Feature, ...], Field(min_length=1)]
    access: Access = "uniform"
    ids: IdOrder | None = None
    """How ids lie, so which rows are hot. Absent: hashed."""
    constraints: Constraints = Constraints()

    @cached_property
    def pooling_factor(self) -> float:
        """Mean lookups per example, over all features of the table."""
        return add_up(feature.lengths.mean for feature in self.features)

    @property
    def accesses(self) -> AccessDistribution:
        return access_distribution(self.access, self.num_embeddings)

    def hit_rate(self, factor: Any, first_row: Any, rows: Any) -> Any:
        """The share of the lookups of a block of rows that a cache with this load factor takes."""
        count = self.num_embeddings
        return block_hit_rate(self.ids, self.accesses, factor, first_row / count, (first_row + rows) / count)


class DcnLayers(Document):
    """The low-rank cross layers of DCN v2."""

    num_layers: Width = 3
    low_rank_dim: Width = 512


class Precision(StrEnum):
    """What dense layers multiply in. On a device without a rate for it they multiply in fp32."""

    FP32 = "fp32"
    TF32 = "tf32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"


class ModelSpec(Document):
    """The whole model. `bottom_mlp` and `top_mlp` are layer widths without their inputs."""

    schema_version: Literal[1]
    name: Name
    description: str | None = None
    source: str | None = None
    local_batch_size: BatchSize
    dense_features: Annotated[int, Field(strict=True, ge=0, le=1_000_000)]
    bottom_mlp: tuple[Width, ...]
    top_mlp: Annotated[tuple[Width, ...], Field(min_length=1)]
    interaction: Interaction
    dcn: DcnLayers | None = None
    dense_precision: Precision | None = None
    """Absent: what the software multiplies in by default."""
    optimizer: Optimizer = Optimizer.ROWWISE_ADAGRAD
    modules: Annotated[tuple[Module, ...], Field(min_length=1, max_length=MAX_TABLES)] | None = None
    """Absent: one pooled module."""
    tables: Annotated[tuple[Table, ...], Field(min_length=1, max_length=MAX_TABLES)]
    together: tuple[Annotated[tuple[Name, ...], Field(min_length=2)], ...] | None = None
    """Groups of tables, each table_wise on the device of the others."""
    apart: tuple[Annotated[tuple[Name, ...], Field(min_length=2)], ...] | None = None
    """Groups of tables of which no two have shards on one device."""

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
    def _modules_have_tables(self) -> ModelSpec:
        refuse_unsound_modules(self)
        return self

    @model_validator(mode="after")
    def _groups_can_be_kept(self) -> ModelSpec:
        tables = {table.name: table for table in self.tables}
        grouped = [
            (f"/together/{index}/{number}", name) for index, group in enumerate(self.together or ()) for number, name in enumerate(group)
        ]
        _refuse_duplicates(iter(grouped))
        for where, name in grouped:
            if name not in tables:
                raise broken_rule(where, name, "must be the name of a table")
            limits = tables[name].constraints
            types = limits.sharding_types or ((limits.pin.sharding_type,) if limits.pin else None)
            if types is not None and ShardingType.TABLE_WISE not in types:
                raise broken_rule(where, name, f"must be table_wise to be kept together, its constraints allow {', '.join(types)}")
            if ShardingType.TABLE_WISE not in (module := self.module_of(tables[name])).sharding_types:
                raise broken_rule(where, name, f"must be table_wise to be kept together; {module.can_be}")
        return self

    @model_validator(mode="after")
    def _groups_can_be_parted(self) -> ModelSpec:
        names = {table.name for table in self.tables}
        partners = {name: group for group in self.together or () for name in group}
        for index, group in enumerate(self.apart or ()):
            _refuse_duplicates((f"/apart/{index}/{number}", name) for number, name in enumerate(group))
            for number, name in enumerate(group):
                if name not in names:
                    raise broken_rule(f"/apart/{index}/{number}", name, "must be the name of a table")
                if len(both := set(partners.get(name, ())) & set(group)) > 1:
                    raise broken_rule(f"/apart/{index}", sorted(both), "must be apart here and are kept together in together")
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

    def module_of(self, table: Table) -> Module:
        """The module that looks the table up."""
        # Not from a cached mapping: model_copy would keep that of the model it copies.
        modules = self.modules or (ONE_MODULE,)
        return modules[0] if len(modules) == 1 else next(module for module in modules if module.path == table.module)

    def limits(self, table: Table) -> Constraints:
        """What is allowed for the table: its constraints, and what its module can do."""
        return narrowed(self.module_of(table), table.constraints)

    @cached_property
    def num_features(self) -> int:
        """Sparse features of all tables."""
        return sum(len(table.features) for table in self.tables)

    @property
    def ids_per_example(self) -> float:
        """Mean ids of an example, over all its features."""
        return add_up(feature.lengths.mean for table in self.tables for feature in table.features)


def _refuse_duplicates(names: Iterable[tuple[str, str]]) -> None:
    """Raises a broken rule at the second of two equal names; `names` are (JSON pointer, name)."""
    seen: dict[str, str] = {}
    for where, name in names:
        if name in seen:
            raise broken_rule(where, name, f"must be unique, {seen[name]} has the same")
        seen[name] = where
