"""Which fused optimizer a module's tables have."""

from __future__ import annotations

from collections.abc import Sequence

from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.memory import optimizer_state_bytes
from emplace.placement.model import Optimizer
from emplace.runtime.dlrm import FUSED_OPTIMIZERS
from emplace.torchrec.tables import ShardedTable

_CLASSES = {
    "SGD": Optimizer.SGD,
    "Adagrad": Optimizer.ADAGRAD,
    "RowWiseAdagrad": Optimizer.ROWWISE_ADAGRAD,
    "Adam": Optimizer.ADAM,
}
"""Optimizer classes of torch and of torchrec.optim, by name."""
_FUSED = {fused: optimizer for optimizer, fused in FUSED_OPTIMIZERS.items()}


def table_optimizer(table: ShardedTable) -> Optimizer:
    """From apply_optimizer_in_backward, else the sharder's fused_params, else FBGEMM's default: SGD. Raises InvalidDocument."""
    classes = getattr(table.parameter, "_optimizer_classes", None)
    if classes:
        found, name = _CLASSES.get(classes[0].__name__), classes[0].__name__
    else:
        fused = (table.sharder.fused_params or {}).get("optimizer", FUSED_OPTIMIZERS[Optimizer.SGD])
        found, name = _FUSED.get(fused), str(fused)
    if found is None:
        rule = f"the optimizer of table {table.name} must be one of {', '.join(Optimizer)}: Emplace doesn't know the bytes of others"
        raise InvalidDocument("module", [BrokenRule(f"/{table.path}", name, rule)])
    return found


def model_optimizer(tables: Sequence[ShardedTable]) -> tuple[Optimizer, bool]:
    """The one that a model document names for all tables: that of the most bytes; and whether they differ."""
    found = {table_optimizer(table) for table in tables}
    most = max(found, key=lambda optimizer: int(optimizer_state_bytes(optimizer, 1, 1_000)))
    return most, len(found) > 1
