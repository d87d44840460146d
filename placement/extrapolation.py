"""Where a plan goes beyond what its cost model was measured with, so that its predicted times are extrapolated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from emplace.placement.cost_model import LargestMeasured
from emplace.placement.dense_part import dense_part
from emplace.placement.model import ShardingType
from emplace.placement.plan import Plan
from emplace.placement.units import show_gib
from emplace.placement.workload import model_loads, shard_workload

_Call = tuple[int, ShardingType]
"""A rank's kernel call: TorchRec makes one for each sharding type."""


def beyond_measured(plan: Plan) -> tuple[str, ...]:
    """One line for each quantity whose largest value in the plan was never measured; none where the cost model is a datasheet's."""
    largest = plan.question.cost_model.largest
    return () if largest is None or not plan.has_placement else tuple(_lines(plan, largest))


def _lines(plan: Plan, largest: LargestMeasured) -> Iterator[str]:
    lookups, output_bytes, sent_bytes = _calls(plan)
    model = plan.question.model
    flops = dense_part(model).training_flops * model.local_batch_size
    for what, calls, measured, spell in (
        ("looks up {} ids", lookups, largest.lookups, _count),
        ("pools {} of vectors", output_bytes, largest.output_bytes, _bytes),
        ("sends {} of vectors", sent_bytes, largest.sent_bytes, _bytes),
    ):
        (rank, kind), most = max(calls.items(), key=lambda item: item[1])
        if most > measured:
            yield f"rank {rank} {what.format(spell(most))} in its {kind} tables; at most {spell(measured)} were measured"
    if flops > largest.dense_flops:
        yield f"the dense layers take {flops / 1e9:.1f} GFLOP a step; at most {largest.dense_flops / 1e9:.1f} were measured"


def _calls(plan: Plan) -> tuple[Counter[_Call], Counter[_Call], Counter[_Call]]:
    """(ids, bytes of pooled vectors, bytes of them that are sent) of every call."""
    question, topology = plan.sized_question, plan.topology()
    loads = model_loads(question.model, topology, question.options.objective)
    tables = {table.name: (table, load) for table, load in zip(question.model.tables, loads, strict=True)}
    lookups: Counter[_Call] = Counter()
    output_bytes: Counter[_Call] = Counter()
    sent_bytes: Counter[_Call] = Counter()
    for placement in plan.tables:
        table, load = tables[placement.name]
        for shard in placement.shards:
            columns = shard.columns[1] - shard.columns[0]
            share = load.row_share(shard.rows[0], shard.rows[1] - shard.rows[0], table.num_embeddings)
            on_server = topology.ranks[shard.rank].is_server
            work = shard_workload(load, placement.sharding_type, share, columns, topology, on_server=on_server)
            call = shard.rank, placement.sharding_type
            lookups[call] += work.lookups
            output_bytes[call] += work.vectors * columns * work.value_bytes
            sent_bytes[call] += work.output_bytes[0] + work.output_bytes[1]
    return lookups, output_bytes, sent_bytes


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _bytes(value: float) -> str:
    return show_gib(round(value))
