"""What is measured, and what comes back: plain documents that cross from the parent to the ranks and back."""

from __future__ import annotations

from enum import StrEnum

from emplace.placement.document import Document
from emplace.placement.model import ComputeKernel, DataType, Interaction, Optimizer, ShardingType


class Operation(StrEnum):
    """Collectives as a DistributedModelParallel step uses them; each stands for its forward and its backward."""

    INPUT_ALL_TO_ALL = "input_all_to_all"
    """Ids and lengths (KJTAllToAll); has no backward."""
    OUTPUT_ALL_TO_ALL = "output_all_to_all"
    """Pooled vectors of whole tables and columns; backward sends their gradients the other way."""
    REDUCE_SCATTER = "reduce_scatter"
    """Pooled vectors of row shards; backward is an all-gather."""
    PERMUTATION = "permutation"
    """Pooled vectors that arrived as pieces of columns are put in order; backward, their gradients. Nothing is sent."""
    CONVERSION = "conversion"
    """Vectors are rounded to fp16, as to be sent so, and back. Nothing is sent, and there is no backward: gradients take as long."""
    ALL_REDUCE = "all_reduce"
    """A replicated parameter's gradient and its way through the buckets; `backward` is the step of an optimizer."""


class TableShape(Document):
    """A table and how it is looked up. `zipf` 0 is uniform access; lengths are Poisson around `lookups_per_bag`, or 1."""

    rows: int
    columns: int
    lookups_per_bag: float
    zipf: float


class LookupPoint(Document):
    """One group of tables behind one FBGEMM operator, each with `bags` bags a batch."""

    kernel: ComputeKernel
    data_type: DataType
    optimizer: Optimizer
    bags: int
    tables: tuple[TableShape, ...]


class CollectivePoint(Document):
    """`sent_bytes` is what each rank sends to the others; of a permutation, what it puts in order, of a conversion, what it rounds, and of
    a rank alone, the gradient that it would send."""

    operation: Operation
    sent_bytes: int
    optimizer: Optimizer | None = None
    """The optimizer of an all-reduced parameter; absent for other operations."""
    ids_per_bag: int | None = None
    """Ids of each bag in the exchange of ids and lengths; absent for other operations."""
    columns: int | None = None
    """Columns of each piece that is permuted; absent for other operations."""


class DensePoint(Document):
    """The dense part of a model with `features` features that are `columns` wide each."""

    batch: int
    interaction: Interaction
    features: int
    columns: int
    bottom: tuple[int, ...]
    """Widths of hidden layers; one of `columns` follows."""
    top: tuple[int, ...]
    """Widths of hidden layers; one of a single value follows."""


class StepPoint(Document):
    """A whole training step of a model with tables of some sharding types, spread so that all ranks do the same.

    Of each type there are `tables` tables of `rows` x `columns` (of table_wise ones, as many on each rank), all looked up
    `lookups_per_bag` times an example on average; the dense layers are `width` wide.
    """

    types: tuple[ShardingType, ...]
    tables: int
    rows: int
    columns: int
    lookups_per_bag: int
    batch: int
    width: int
    depth: int = 0
    """Hidden layers of the top MLP besides."""


class ReferencePoints(Document):
    """Points that are measured again in every round of their kind, to see how fast the machine is at that moment. Of whole steps it is
    runtime.reference_step's."""

    collective: CollectivePoint
    dense: DensePoint
    lookup: LookupPoint


class Kind(StrEnum):
    STEP = "step"
    COLLECTIVE = "collective"
    DENSE = "dense"
    LOOKUP = "lookup"


class Design(Document):
    """Everything one launch of the rank program measures, for about `budget_s` seconds."""

    seed: int
    budget_s: float
    round_s: float
    """Seconds that the repetitions of one round of points may take."""
    step_sweeps: int
    """How often every whole step is measured, each time after all others. Everything else is measured once."""
    steps: tuple[StepPoint, ...]
    collectives: tuple[CollectivePoint, ...]
    dense: tuple[DensePoint, ...]
    lookups: tuple[LookupPoint, ...]
    reference: ReferencePoints

    @property
    def points(self) -> dict[Kind, int]:
        """How many points there are of each kind."""
        sizes = {Kind.STEP: len(self.steps), Kind.COLLECTIVE: len(self.collectives)}
        return sizes | {Kind.DENSE: len(self.dense), Kind.LOOKUP: len(self.lookups)}

    def sweeps(self, kind: Kind) -> int:
        """How often every point of the kind is measured."""
        return self.step_sweeps if kind is Kind.STEP else 1

    @property
    def size(self) -> int:
        """How many measurements it asks for."""
        return sum(points * self.sweeps(kind) for kind, points in self.points.items())

    @property
    def fewest(self) -> int:
        """How many are made even when that takes longer than the budget: half of them are enough to fit every part."""
        return (self.size + 1) // 2


Key = tuple[Kind, int, int]
"""What identifies a sample: its kind, index and sweep."""


class TableCounts(Document):
    """What one batch asks of one table, counted in the batches themselves (means): the quantities of placement.workload."""

    lookups: float
    unique_rows: float
    row_bytes: int
    bags: int
    uneven_bags: int
    """All bags, where their lengths differ; else 0."""
    bag_bytes: int
    rows: int
    """Rows of the table, looked up or not."""


class Sample(Document):
    """One point on one rank in one sweep: the time of every repetition. `index` is the point's place in its part of the design."""

    kind: Kind
    index: int
    sweep: int = 0
    forward_us: tuple[float, ...]
    backward_us: tuple[float, ...]
    reference_us: tuple[float, ...] = ()
    """Times of the reference of the same kind in the same round, forward and backward together."""
    tables: tuple[TableCounts, ...] = ()

    @property
    def key(self) -> Key:
        return self.kind, self.index, self.sweep
