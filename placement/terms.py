"""Words that tables and modules of a model share."""

from __future__ import annotations

from enum import StrEnum


class DataType(StrEnum):
    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"
    INT8 = "int8"


class ShardingType(StrEnum):
    """TorchRec's sharding types, verbatim."""

    TABLE_WISE = "table_wise"
    COLUMN_WISE = "column_wise"
    ROW_WISE = "row_wise"
    TABLE_ROW_WISE = "table_row_wise"
    TABLE_COLUMN_WISE = "table_column_wise"
    GRID_SHARD = "grid_shard"
    DATA_PARALLEL = "data_parallel"


OPTIMAL_GAP = 1e-6
"""Gap up to which a plan is called optimal. Linear programs are solved to about 1e-7, so a bound can't be trusted further."""
