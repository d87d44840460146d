"""What changed from one plan to another: the question first, then the placement, the bytes to move, and the promise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from emplace.placement.document import Document
from emplace.placement.model import ModelSpec, Name, Table
from emplace.placement.moving import bytes_to_move
from emplace.placement.plan import Plan, PlanStatus, Question, TablePlacement
from emplace.placement.topology import allowed_tiers

_MAX_SHOWN_VALUE = 60


class Change(Document):
    """A part of the question, by JSON pointer with names for list items; None where it is absent."""

    where: str
    before: str | None = None
    after: str | None = None


class TableChange(Document):
    """A table with another place or another sharding; `before` or `after` is None where the model lacks it."""

    name: Name
    before: str | None = None
    after: str | None = None
    bytes_to_move: int = 0
    """Weights and optimizer state that their new place does not hold yet. A table that is new has nothing to move."""


class Promise(Document):
    """What a plan predicts."""

    status: PlanStatus
    step_time_us: float | None = None
    gap: float | None = None
    placement_gap: float | None = None
    throughput_samples_per_s: float | None = None


class PlanDiff(Document):
    question: tuple[Change, ...]
    tables: tuple[TableChange, ...]
    unchanged_tables: int
    bytes_to_move: int
    before: Promise
    after: Promise


def diff_plans(before: Plan, after: Plan) -> PlanDiff:
    """Compare two plans of any models and hosts."""
    tables = list(_table_changes(before, after))
    changed = [change for change in tables if change.before != change.after or change.bytes_to_move]
    return PlanDiff(
        question=tuple(_question_changes(before, after)),
        tables=tuple(changed),
        unchanged_tables=len(tables) - len(changed),
        bytes_to_move=sum(change.bytes_to_move for change in changed),
        before=_promise(before),
        after=_promise(after),
    )


def _promise(plan: Plan) -> Promise:
    return Promise(
        status=plan.status,
        step_time_us=plan.step_time_us,
        gap=plan.gap,
        placement_gap=plan.placement_gap,
        throughput_samples_per_s=plan.throughput_samples_per_s,
    )


def _question_changes(before: Plan, after: Plan) -> Iterator[Change]:
    for part in ("model", "host"):
        yield from document_changes(f"/{part}", getattr(before.question, part).to_data(), getattr(after.question, part).to_data())
    yield from document_changes("/options", _meant_options(before.question), _meant_options(after.question))
    if before.cost_model.digest != after.cost_model.digest:
        yield Change(where="/cost_model", before=_cost_model(before), after=_cost_model(after))


def _meant_options(question: Question) -> dict[str, Any]:
    """The options of a question, with the host's defaults where it says nothing."""
    options, host = question.options, question.host
    nodes = options.nodes or host.nodes
    used = {"nodes": nodes, "ranks": options.ranks or nodes * host.devices_per_node}
    return options.to_data() | used | {"tiers": [tier.value for tier in allowed_tiers(host, options.tiers)]}


def _cost_model(plan: Plan) -> str:
    return f"{plan.cost_model.source} {plan.cost_model.digest[:19]}"


def document_changes(where: str, before: Any, after: Any) -> Iterator[Change]:
    """Where the data of two documents differ, in their order; `where` is the pointer to both."""
    if before == after:
        return
    before, after = _by_name(before), _by_name(after)
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from document_changes(f"{where}/{key}", before.get(key), after.get(key))
    else:
        yield Change(where=where, before=_shown(before), after=_shown(after))


def _by_name(value: Any) -> Any:
    """A list of named things as a mapping, so that an inserted item does not shift the others."""
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        keys = [item.get("name") or item.get("kind") for item in value]
        if all(keys) and len(set(keys)) == len(keys):
            return dict(zip(keys, value, strict=True))
    return value


def _shown(value: Any) -> str | None:
    if value is None:
        return None
    text = "present" if isinstance(value, dict) else str(value)
    return text if len(text) <= _MAX_SHOWN_VALUE else text[: _MAX_SHOWN_VALUE - 3] + "..."


def _table_changes(before: Plan, after: Plan) -> Iterator[TableChange]:
    old = {placement.name: placement for placement in before.tables}
    new = {placement.name: placement for placement in after.tables}
    for name in [*old, *(name for name in new if name not in old)]:
        moved = 0
        if name in old and name in new:
            moved = _bytes_to_move(_table(before.question.model, name), after.question.model, old[name], new[name])
        yield TableChange(
            name=name,
            before=describe_placement(old[name]) if name in old else None,
            after=describe_placement(new[name]) if name in new else None,
            bytes_to_move=moved,
        )


def describe_placement(placement: TablePlacement) -> str:
    """`column_wise fused on ranks 0, 3`."""
    ranks = sorted({shard.rank for shard in placement.shards})
    cache = "" if placement.cache_load_factor is None else f" (cache {placement.cache_load_factor:g})"
    return f"{placement.sharding_type} {placement.compute_kernel}{cache} on {describe_ranks(ranks)}"


def describe_ranks(ranks: Sequence[int]) -> str:
    """`rank 3`, `ranks 0, 3`, `ranks 0-7`; they rise."""
    run = len(ranks) > 2 and list(ranks) == list(range(ranks[0], ranks[-1] + 1))
    listed = f"{ranks[0]}-{ranks[-1]}" if run else ", ".join(map(str, ranks))
    return f"rank{'s' if len(ranks) > 1 else ''} {listed}"


def _table(model: ModelSpec, name: str) -> Table:
    return next(table for table in model.tables if table.name == name)


def _bytes_to_move(table: Table, model: ModelSpec, old: TablePlacement, new: TablePlacement) -> int:
    """Where the table's width or data type changed, old rows are of no use as they are: everything moves."""
    became = _table(model, table.name)
    usable = (table.embedding_dim, table.data_type) == (became.embedding_dim, became.data_type)
    return bytes_to_move(became, model.optimizer, old if usable else None, new)
