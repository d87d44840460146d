"""Modules of a model: the collections that its tables are looked up by, TorchRec's EmbeddingBagCollection and EmbeddingCollection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, model_validator

from emplace.placement.document import Document, broken_rule
from emplace.placement.qcomm import AS_PUT_OUT, Qcomm
from emplace.placement.terms import DataType, ShardingType

if TYPE_CHECKING:
    from emplace.placement.model import Constraints, ModelSpec, Table

Path = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*$", max_length=200)]
"""Where a module is in the model, as PyTorch names it: `sparse.history`."""

DEFAULT_PATH = "ebc"
"""Path of the one pooled module of a model that names none."""

SEQUENCE_TYPES = (ShardingType.TABLE_WISE, ShardingType.ROW_WISE, ShardingType.DATA_PARALLEL)
"""Sharding types of all tables that are not pooled. TorchRec's EmbeddingCollection knows column_wise too, with pieces of one width for all
tables of a module, which its `column_width` names."""

SPLIT_MEANS = (ShardingType.ROW_WISE, ShardingType.TABLE_ROW_WISE)
_WHOLE_MEANS = (ShardingType.TABLE_WISE, ShardingType.COLUMN_WISE, ShardingType.TABLE_COLUMN_WISE, ShardingType.DATA_PARALLEL)
"""Sharding types of tables whose vectors are means. Where rows are split TorchRec divides sums itself, and those of other tables of the
module with them, means or not; means of a grid it does not divide right (torchrec 1.8, `_create_mean_pooling_divisor`)."""

_OUTPUT_TYPES = (DataType.FP32, DataType.FP16, DataType.BF16)


class Pooling(StrEnum):
    """What becomes of the vectors of one feature of one example."""

    SUM = "sum"
    MEAN = "mean"
    NONE = "none"


class Module(Document):
    """A collection of tables. Not pooled, it is an EmbeddingCollection: each lookup's vector goes to the trainer."""

    path: Path
    pooling: Pooling = Pooling.SUM
    weighted: bool = False
    """Whether each id comes with a weight, of 4 bytes."""
    index_dedup: bool = False
    """Whether each trainer sends an id of its batch once, and repeats its vector itself (EmbeddingCollectionSharder's use_index_dedup)."""
    output_data_type: DataType = DataType.FP32
    """The type of the vectors that lookups put out and trainers receive."""
    qcomm: Qcomm | None = None
    """What they and their gradients are sent in. Absent: as they are put out."""
    column_width: Annotated[int, Field(strict=True, gt=0, multiple_of=4)] | None = None
    """Columns of a piece where tables that are not pooled are column_wise. Absent: they are not."""
    splits_rows: bool = False
    """Whether tables whose vectors are means are split by rows: all of them are, or none, or TorchRec trains them wrong."""

    @property
    def is_pooled(self) -> bool:
        return self.pooling is not Pooling.NONE

    @property
    def sent_in(self) -> Qcomm:
        """What vectors and gradients are sent in."""
        return self.qcomm or AS_PUT_OUT

    @property
    def sharding_types(self) -> tuple[ShardingType, ...]:
        """What its tables can be."""
        if self.pooling is Pooling.MEAN:
            return SPLIT_MEANS if self.splits_rows else _WHOLE_MEANS
        if self.is_pooled:
            return tuple(ShardingType)
        return SEQUENCE_TYPES if self.column_width is None else (*SEQUENCE_TYPES, ShardingType.COLUMN_WISE)

    @property
    def can_be(self) -> str:
        """What its tables can be, in words; where that is less than anything."""
        types = ", ".join(self.sharding_types)
        if self.pooling is Pooling.MEAN:
            return f"its module {self.path} pools means, and splits_rows {str(self.splits_rows).lower()} makes tables {types}"
        more = "" if self.column_width else f", and {ShardingType.COLUMN_WISE} where it has a column_width"
        return f"its module {self.path} is not pooled, and can be {types}{more}"

    @model_validator(mode="after")
    def _parts_agree(self) -> Module:
        if self.index_dedup and self.is_pooled:
            raise broken_rule("/index_dedup", True, f"goes with pooling none only, here is pooling {self.pooling}")
        if self.column_width is not None and self.is_pooled:
            raise broken_rule("/column_width", self.column_width, f"goes with pooling none only, here is pooling {self.pooling}")
        if self.splits_rows and self.pooling is not Pooling.MEAN:
            raise broken_rule("/splits_rows", True, f"goes with pooling mean only, here is pooling {self.pooling}")
        if self.output_data_type not in _OUTPUT_TYPES:
            raise broken_rule("/output_data_type", self.output_data_type.value, f"must be one of {', '.join(_OUTPUT_TYPES)}")
        return self


ONE_MODULE = Module(path=DEFAULT_PATH)
"""What all tables are in where a model names no modules."""


def pieces_of(model: ModelSpec, table: Table) -> int | None:
    """How many pieces the table is in where it is column_wise; None where any number will do."""
    width = model.module_of(table).column_width
    return None if width is None else table.embedding_dim // width


def narrowed(module: Module, limits: Constraints) -> Constraints:
    """What is allowed for a table of the module whose own constraints are `limits`: what the module can do."""
    if module.pooling is Pooling.SUM or limits.pin is not None:
        return limits
    types = tuple(kind for kind in limits.sharding_types or module.sharding_types if kind in module.sharding_types)
    return limits.model_copy(update={"sharding_types": types})


def refuse_unsound_modules(model: ModelSpec) -> None:
    """Raises a broken rule where modules and tables don't fit each other."""
    modules: dict[str, Module] = {}
    for index, module in enumerate(model.modules or ()):
        if module.path in modules:
            raise broken_rule(f"/modules/{index}/path", module.path, "must be unique, another module has the same")
        if inside := [path for path in modules if f"{path}.".startswith(f"{module.path}.") or f"{module.path}.".startswith(f"{path}.")]:
            raise broken_rule(f"/modules/{index}/path", module.path, f"must not be inside another module, or hold one, here {inside[0]}")
        modules[module.path] = module
    for index, table in enumerate(model.tables):
        _refuse_misplaced(modules, index, table)
    empty = set(modules) - {table.module for table in model.tables} if len(modules) > 1 else set()
    for index, module in enumerate(model.modules or ()):
        if module.path in empty:
            raise broken_rule(f"/modules/{index}", module.path, "has no table; name it as `module` of a table, or leave it out")
        if not module.is_pooled:
            _refuse_widths(index, module, [table for table in model.tables if table.module in (None, module.path)])


def _refuse_misplaced(modules: dict[str, Module], index: int, table: Table) -> None:
    where, known = f"/tables/{index}", ", ".join(modules)
    if table.module is None:
        if len(modules) > 1:
            raise broken_rule(f"{where}/module", "", f"is required, because the model names several modules: {known}")
    elif table.module not in modules:
        rule = f"must be the path of a module; the model names {known}" if modules else "needs `modules` in the model, it names none"
        raise broken_rule(f"{where}/module", table.module, rule)
    module = next(iter(modules.values()), ONE_MODULE) if table.module is None else modules[table.module]
    if refused := list(_named_types(module, table, index)):
        pointer, named = refused[0]
        rule = f"leaves no way to shard the table: {module.can_be}"
        raise broken_rule(pointer, named, rule)


def _named_types(module: Module, table: Table, index: int) -> Iterator[tuple[str, str]]:
    """(JSON pointer, value) of what a table's constraints ask for, where its module can do nothing of it."""
    where, limits = f"/tables/{index}/constraints", table.constraints
    if limits.pin is not None and limits.pin.sharding_type not in module.sharding_types:
        yield f"{where}/pin/sharding_type", limits.pin.sharding_type.value
    if limits.sharding_types is not None and not set(limits.sharding_types) & set(module.sharding_types):
        yield f"{where}/sharding_types", ", ".join(limits.sharding_types)


def _refuse_widths(index: int, module: Module, tables: Iterable[Table]) -> None:
    """Tables of a sequence module have one width, and are cut into pieces of one."""
    widths = sorted({table.embedding_dim for table in tables})
    if len(widths) > 1:
        rule = f"is not pooled, so its tables need one embedding_dim (EmbeddingCollection), they are {', '.join(map(str, widths))}"
        raise broken_rule(f"/modules/{index}", module.path, rule)
    width = module.column_width
    if width is not None and widths and (width == widths[0] or widths[0] % width):
        rule = f"must cut the embedding_dim of {widths[0]} into several pieces of that width"
        raise broken_rule(f"/modules/{index}/column_width", width, rule)
