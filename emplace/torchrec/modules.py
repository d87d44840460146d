"""The collections of a live module as modules of a model document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torchrec.distributed.embedding import get_ec_index_dedup
from torchrec.distributed.planner.constants import MIN_CW_DIM
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec.distributed.types import CommOp
from torchrec.modules.embedding_configs import DataType as TorchRecDataType
from torchrec.modules.embedding_configs import PoolingType

from emplace.executor.live_names import spelt_path
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.layout import COLUMN_MULTIPLE
from emplace.placement.model import DataType, ShardingType
from emplace.placement.modules import SPLIT_MEANS, Module, Pooling
from emplace.placement.qcomm import CommPrecision, Qcomm
from emplace.torchrec.limits import is_weighted
from emplace.torchrec.tables import ShardedTable, is_sequence

_OUTPUT_TYPES = {TorchRecDataType.FP16: DataType.FP16, TorchRecDataType.BF16: DataType.BF16}


def spec_modules(tables: Sequence[ShardedTable], given: Mapping[str, ParameterConstraints]) -> tuple[Module, ...] | None:
    """Those of the tables, in the order in which they are found; None for one that sums without weights, as a document takes it."""
    by_path: dict[str, list[ShardedTable]] = {}
    for table in tables:
        by_path.setdefault(spelt_path(table.path), []).append(table)
    found = tuple(_module(path, own, given) for path, own in by_path.items())
    is_plain = len(found) == 1 and found[0] == Module(path=found[0].path)
    return None if is_plain else found


def _module(path: str, tables: Sequence[ShardedTable], given: Mapping[str, ParameterConstraints]) -> Module:
    pooling = _pooling(tables)
    return Module(
        path=path,
        pooling=pooling,
        splits_rows=pooling is Pooling.MEAN and _splits_rows(tables, given),
        weighted=any(is_weighted(table, given.get(table.name)) for table in tables),
        index_dedup=is_sequence(tables[0].module) and _dedups(tables[0].sharder),
        output_data_type=_output_data_type(tables, given),
        qcomm=_qcomm(tables[0]),
        column_width=_column_width(tables, given) if is_sequence(tables[0].module) else None,
    )


def _pooling(tables: Sequence[ShardedTable]) -> Pooling:
    if is_sequence(tables[0].module):
        return Pooling.NONE
    return Pooling.MEAN if all(table.config.pooling is PoolingType.MEAN for table in tables) else Pooling.SUM


def _splits_rows(tables: Sequence[ShardedTable], given: Mapping[str, ParameterConstraints]) -> bool:
    """Whether the constraints of every table allow nothing but row_wise and table_row_wise."""
    allowed = [set((given.get(table.name) or ParameterConstraints()).sharding_types or ShardingType) for table in tables]
    return all(each <= set(SPLIT_MEANS) for each in allowed)


def _column_width(tables: Sequence[ShardedTable], given: Mapping[str, ParameterConstraints]) -> int | None:
    """The one width of all pieces of columns of a collection: the least that all constraints allow, TorchRec's least by default."""
    limits = [given.get(table.name) or ParameterConstraints() for table in tables]
    if all(each.sharding_types and ShardingType.COLUMN_WISE not in each.sharding_types for each in limits):
        return None
    least, columns = max(each.min_partition or MIN_CW_DIM for each in limits), tables[0].config.embedding_dim
    widths = (columns // pieces for pieces in range(columns // max(least, COLUMN_MULTIPLE), 1, -1) if columns % pieces == 0)
    return next((width for width in widths if width % COLUMN_MULTIPLE == 0), None)


def _dedups(sharder: Any) -> bool:
    return bool(getattr(sharder, "_use_index_dedup", False) or get_ec_index_dedup())


def _qcomm(table: ShardedTable) -> Qcomm | None:
    """What the sharder's codecs of the all-to-all say; of what is reduced on the way TorchRec's registry follows from it."""
    operation = CommOp.SEQUENCE_EMBEDDINGS_ALL_TO_ALL if is_sequence(table.module) else CommOp.POOLED_EMBEDDINGS_ALL_TO_ALL
    codecs = (getattr(table.sharder, "qcomm_codecs_registry", None) or {}).get(operation.name)
    if codecs is None:
        return None
    forward, backward = (_comm_precision(table, codec) for codec in (codecs.forward, codecs.backward))
    return Qcomm(forward_precision=forward, backward_precision=backward)


def _comm_precision(table: ShardedTable, codec: Any) -> CommPrecision:
    name = getattr(codec, "_comm_precision", None)
    if (value := getattr(name, "value", name)) not in set(CommPrecision):
        rule = f"vectors are priced that are sent in {', '.join(CommPrecision)}; give its sharder such codecs, or none"
        raise InvalidDocument("module", [BrokenRule(f"/{table.path}", str(value), rule)])
    return CommPrecision(value)


def _output_data_type(tables: Sequence[ShardedTable], given: Mapping[str, ParameterConstraints]) -> DataType:
    """What the constraints of all tables ask for, else fp32, which is the most."""
    asked = {given[table.name].output_dtype if table.name in given else None for table in tables}
    return _OUTPUT_TYPES.get(asked.pop(), DataType.FP32) if len(asked) == 1 else DataType.FP32
