"""Does the sharded model learn what an unsharded one learns? Compares the update, not the weights.

A scaled-down copy of the plan trains a few steps with plain SGD beside an unsharded reference on rank 0 that sees the
batches of all trainers. Always SGD: row-wise Adagrad keeps one state value per row *of each shard*, so under column sharding it
differs from the unsharded one by design. The learning rates are set so that a step moves the weights by some percent: with
small ones the weights would agree whatever the gradients are, with large ones a deep model diverges. Both have activations without
kinks: where rounding puts one input of a ReLU on the other side of 0, one example's gradient changes as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from emplace.executor.export import plan_topology
from emplace.executor.job import UpdateError
from emplace.executor.placed import local_parts
from emplace.executor.scaled import scaled_plan
from emplace.executor.training import training_of
from emplace.placement.model import Optimizer
from emplace.placement.plan import Plan
from emplace.runtime.batches import draw_batch
from emplace.runtime.dlrm import Batch, Dlrm
from emplace.runtime.training import Training, table_of

STEPS = 4
MAX_EXAMPLES = 128
"""The most examples of each rank's batch."""
_TABLE_STEP, _LAYER_STEP = 0.02, 0.002
"""By how much of their size the first step changes the weights that it touches, of tables and of dense layers."""
_LOST = 1e9
"""The error of what is not there at all."""

StateDict = dict[str, Tensor]


def compare_updates(plan: Plan, seed: int, device: torch.device, control: dist.ProcessGroup) -> list[UpdateError]:
    """The errors of each table and of the dense layers on rank 0, none on the others. `control` is a gloo group of all ranks."""
    small = scaled_plan(plan)
    spec = small.question.model
    examples, world = min(spec.local_batch_size, MAX_EXAMPLES), dist.get_world_size()
    is_reference = dist.get_rank() == 0

    torch.manual_seed(seed)
    reference = Dlrm(spec, torch.device("cpu"))
    smoothen(reference)
    start = {name: value.detach().clone() for name, value in reference.state_dict().items()}

    trainers = len(plan_topology(plan).trainers)

    def batches(rank: int) -> list[Batch]:
        return [draw_batch(spec, examples if rank < trainers else 0, seed, rank, number) for number in range(STEPS)]

    everyone = [batches(rank) for rank in range(trainers)] if is_reference else []
    rates = [_learning_rates(reference, [own[0] for own in everyone])] if is_reference else [None]
    dist.broadcast_object_list(rates, src=0, group=control)
    sparse_rate, dense_rate = rates[0]  # type: ignore[misc]

    training = training_of(small, device, optimizer=Optimizer.SGD, sparse_rate=sparse_rate, dense_rate=dense_rate)
    smoothen(training.dmp)
    _load(training, start)
    for batch in batches(dist.get_rank()):
        training.step(batch.copy_to(device))
    parts: list[Any] | None = [None] * world if is_reference else None
    dist.gather_object(list(_read_back(training)), parts, dst=0, group=control)
    if parts is None:
        return []
    _train_reference(reference, everyone, sparse_rate, dense_rate)
    return _errors(start, dict(reference.state_dict()), _assembled(start, parts))


def smoothen(model: nn.Module) -> None:
    """Put a GELU in place of every ReLU of the model: its gradient changes little where its input does."""
    for parent in model.modules():
        for name, layer in parent.named_children():
            if isinstance(layer, nn.ReLU):
                setattr(parent, name, nn.GELU())


def _learning_rates(reference: Dlrm, batches: list[Batch]) -> tuple[float, float]:
    """(tables, dense layers): the learning rates at which the first step changes weights by _TABLE_STEP and _LAYER_STEP of their size."""
    _global_loss(reference, batches).backward()  # type: ignore[no-untyped-call]
    rates = []
    for parameters, step in ((_tables_of(reference), _TABLE_STEP), (reference.dense.parameters(), _LAYER_STEP)):
        touched = [(p.detach()[p.grad != 0], p.grad[p.grad != 0]) for p in parameters if p.grad is not None]
        weight = torch.cat([weights for weights, _ in touched]).norm()
        gradient = torch.cat([gradients for _, gradients in touched]).norm()
        rates.append(float(step * weight / gradient) if gradient > 0 else 1.0)
    reference.zero_grad()
    return rates[0], rates[1]


def _tables_of(model: Dlrm) -> Iterator[Tensor]:
    return (parameter for collection in model.collections for parameter in collection.parameters())


def _global_loss(model: Dlrm, batches: list[Batch]) -> Tensor:
    return torch.stack([model(batch) for batch in batches]).mean()


def _train_reference(reference: Dlrm, everyone: list[list[Batch]], sparse_rate: float, dense_rate: float) -> None:
    groups = [{"params": _tables_of(reference), "lr": sparse_rate}, {"params": reference.dense.parameters(), "lr": dense_rate}]
    optimizer = torch.optim.SGD(groups)
    for step in zip(*everyone, strict=True):
        optimizer.zero_grad()
        _global_loss(reference, list(step)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def _load(training: Training, start: StateDict) -> None:
    """Give every shard its part of the reference's weights."""
    with torch.no_grad():
        for part in local_parts(training.dmp):
            (first_row, last_row), (first_column, last_column) = part.rows, part.columns
            part.weights.copy_(start[part.parameter][first_row:last_row, first_column:last_column])
        for name, value in _dense_state(training):
            value.copy_(start[name])


def _read_back(training: Training) -> Iterator[tuple[str, tuple[int, int] | None, tuple[int, int] | None, Tensor]]:
    """(parameter, rows, columns, weights) of everything that this rank holds; no rows and columns for dense layers."""
    for part in local_parts(training.dmp):
        yield part.parameter, part.rows, part.columns, part.weights.detach().cpu().clone()
    for name, value in _dense_state(training):
        yield name, None, None, value.detach().cpu().clone()


def _dense_state(training: Training) -> Iterator[tuple[str, Tensor]]:
    return (("dense." + name, value) for name, value in training.dlrm.get_submodule("dense").state_dict().items())


def _assembled(start: StateDict, parts: list[Any]) -> dict[str, list[Tensor]]:
    """Whole parameters, put together from the ranks' parts; of a replicated one, a copy for each rank. What no rank holds stays NaN."""
    whole: dict[str, list[Tensor]] = {}
    for rank_parts in parts:
        for name, rows, columns, weights in rank_parts:
            if rows is None or weights.shape == start[name].shape:
                whole.setdefault(name, []).append(weights)
            else:
                target = whole.setdefault(name, [torch.full(start[name].shape, float("nan"), dtype=weights.dtype)])[0]
                target[rows[0] : rows[1], columns[0] : columns[1]] = weights
    return whole


def _errors(start: StateDict, reference: StateDict, sharded: dict[str, list[Tensor]]) -> list[UpdateError]:
    """One error for each table, and one for all dense layers: a single bias may move by next to nothing, so that rounding would decide."""
    groups: dict[str, list[str]] = {}
    for name in start:
        table = table_of(name)
        groups.setdefault("the dense layers" if table is None else f"table {table}", []).append(name)
    return [_error(group, names, start, reference, sharded) for group, names in groups.items()]


def _error(group: str, names: list[str], start: StateDict, reference: StateDict, sharded: dict[str, list[Tensor]]) -> UpdateError:
    """How far the worst copy of these parameters is from the reference. Raises ArithmeticError where the reference diverged."""
    before, expected = (_joined([state[name] for name in names]) for state in (start, reference))
    copies = min(len(sharded.get(name, [])) for name in names)
    trained = [_joined([sharded[name][copy] for name in names]) for copy in range(copies)]
    update = float((expected - before).norm())
    if not math.isfinite(update):
        raise ArithmeticError("the unsharded reference diverged, so there is nothing to compare with")
    # A part that no rank holds is NaN: as wrong as a document can say.
    worst = max((float(torch.nan_to_num((copy - expected).norm(), nan=_LOST, posinf=_LOST)) for copy in trained), default=_LOST)
    return UpdateError(
        parameter=group, relative_error=min(worst / update if update else worst, _LOST), relative_update=update / float(before.norm())
    )


def _joined(values: list[Tensor]) -> Tensor:
    return torch.cat([value.double().reshape(-1) for value in values])
