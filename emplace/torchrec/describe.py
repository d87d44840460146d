"""A live module as a model document."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from torch import nn
from torchrec.distributed.planner.constants import BATCH_SIZE
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec.distributed.sharding_plan import get_default_sharders
from torchrec.modules.embedding_configs import DataType as TorchRecDataType

from emplace.executor.live_names import spelt_path
from emplace.executor.refusal import type_refusal
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.host import DeviceType
from emplace.placement.model import DataType, Feature, Interaction, ModelSpec, Table
from emplace.placement.modules import ONE_MODULE, Module
from emplace.placement.reading import from_data
from emplace.torchrec.dense import DenseMeasure, dense_layers
from emplace.torchrec.limits import PlannedJob, feature_lengths, table_limits
from emplace.torchrec.modules import spec_modules
from emplace.torchrec.optimizers import model_optimizer
from emplace.torchrec.tables import ShardedTable, find_tables

_DATA_TYPES = {
    TorchRecDataType.FP32: DataType.FP32,
    TorchRecDataType.FP16: DataType.FP16,
    TorchRecDataType.BF16: DataType.BF16,
    TorchRecDataType.INT8: DataType.INT8,
}


@dataclass(frozen=True)
class Described:
    """A module's document, and the table of each of its entries."""

    spec: ModelSpec
    tables: tuple[ShardedTable, ...]


def describe(
    module: nn.Module,
    sharders: Sequence[Any] | None = None,
    *,
    batch_size: int = BATCH_SIZE,
    constraints: Mapping[str, ParameterConstraints] | None = None,
    compute_device: str = "cuda",
    name: str | None = None,
    sample: Any = None,
) -> ModelSpec:
    """The model document of a live module, which may be on the meta device. Without sharders: TorchRec's default ones.

    `batch_size` is a rank's, by default TorchRec's 512. `constraints` are TorchRec's, by table name; without them each feature has one
    id an example. `compute_device` (cuda, cpu) decides which sharding types and kernels the sharders offer. `name` is by default the
    module's class. With `sample`, a batch as the module takes it (a tuple: its arguments), the dense part's flops are counted in a
    forward; else they follow from its nn.Linear layers. Raises InvalidDocument naming what Emplace does not know, and ToolError where
    the forward fails.
    """
    job = PlannedJob(compute_device, batch_size)
    return describe_module(module, get_default_sharders() if sharders is None else sharders, job, constraints, name, sample).spec


def describe_module(
    module: nn.Module,
    sharders: Sequence[Any],
    job: PlannedJob,
    constraints: Mapping[str, ParameterConstraints] | None = None,
    name: str | None = None,
    sample: Any = None,
) -> Described:
    """`describe`, with the module's tables beside the document."""
    tables = find_tables(module, sharders)
    given = constraints or {}
    optimizer, optimizers_differ = model_optimizer(tables)
    modules = spec_modules(tables, given)
    by_path = {module.path: module for module in modules or ()}
    entries = tuple(_table(table, given.get(table.name), job, by_path.get(spelt_path(table.path))) for table in tables)
    dense = dense_layers(module, _modules(tables), sample)
    width = sum(table.embedding_dim * len(table.features) for table in entries)
    notes = [*_dense_notes(dense), *_notes(optimizer, optimizers_differ)]
    data = {
        "schema_version": 1,
        "name": name or type(module).__name__,
        "description": ". ".join(notes) + ".",
        "source": "described from a live module by emplace.torchrec",
        "local_batch_size": job.batch_size,
        "dense_features": 0,
        "bottom_mlp": [],
        "top_mlp": [_hidden_width(dense, width), 1],
        "interaction": Interaction.CAT,
        "optimizer": optimizer,
        "modules": None if modules is None else [module.to_data() for module in modules],
        "tables": [entry.to_data() for entry in entries],
    }
    return Described(from_data(data, ModelSpec, source="module"), tuple(tables))


def _modules(tables: Iterable[ShardedTable]) -> list[nn.Module]:
    return list({id(table.module): table.module for table in tables}.values())


def _table(table: ShardedTable, given: ParameterConstraints | None, job: PlannedJob, module: Module | None) -> Table:
    lengths = feature_lengths(table, given)
    try:
        return Table(
            name=table.spec_name,
            num_embeddings=table.config.num_embeddings,
            embedding_dim=table.config.embedding_dim,
            data_type=_data_type(table, job),
            module=None if module is None else module.path,
            features=tuple(Feature(name=name, length=length) for name, length in zip(table.features, lengths, strict=True)),
            constraints=table_limits(table, given, job, module or ONE_MODULE),
        )
    except ValidationError as error:
        broken = [
            BrokenRule(f"/{table.name}/{'/'.join(map(str, each['loc']))}", str(each["input"]), each["msg"]) for each in error.errors()
        ]
        raise InvalidDocument("module", broken) from None


def _data_type(table: ShardedTable, job: PlannedJob) -> DataType:
    """Raises InvalidDocument for one that TorchRec can't train on the job's devices."""
    trained = [each for each in DataType if type_refusal(each, on_cuda=job.compute_device != DeviceType.CPU) is None]
    found = _DATA_TYPES.get(table.config.data_type)
    if found is None or found not in trained:
        rule = f"the data type of table {table.name} must be one of {', '.join(trained)}: TorchRec trains no other on {job.compute_device}"
        raise InvalidDocument("module", [BrokenRule(f"/{table.path}", table.config.data_type.value, rule)])
    return found


def _hidden_width(dense: DenseMeasure, pooled_width: int) -> int:
    """Width of the one hidden layer that stands for the dense part: it has at least as many parameters, and flops, as were counted.

    A layer from `pooled_width` to h and one from h to 1 have h (pooled_width + 2) + 1 parameters and take 2 h (pooled_width + 1) flops.
    """
    by_parameters = (dense.parameters - 1) / (pooled_width + 2)
    by_flops = dense.flops_per_example / (2 * (pooled_width + 1))
    return max(1, math.ceil(max(by_parameters, by_flops)))


def _dense_notes(dense: DenseMeasure) -> Iterator[str]:
    how = "counted in a forward of a sample batch" if dense.measured else "assumed from the shapes of its nn.Linear layers"
    yield (
        f"The dense part has {dense.parameters:,} parameters and takes {dense.flops_per_example:,.0f} flop an example in a forward, {how}; "
        "top_mlp stands for it with one hidden layer of at least as many"
    )


def _notes(optimizer: str, optimizers_differ: bool) -> Iterator[str]:
    if optimizers_differ:
        yield f"Tables have several optimizers; all are counted with the state of {optimizer}, the largest"
