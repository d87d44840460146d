"""A plan beyond what was measured says so."""

from __future__ import annotations

import pytest

from emplace.placement.cost_model import LargestMeasured
from emplace.placement.extrapolation import beyond_measured
from emplace.placement.model import ComputeKernel, ShardingType
from emplace.placement.plan import Plan
from tests.placement.example_models import gpu_host, model
from tests.placement.naive_plan import naive_plan
from tests.prices import bandwidth_prices

EVERYTHING = LargestMeasured(lookups=1e12, output_bytes=1e12, sent_bytes=1e12, dense_flops=1e15)


def plan(largest: LargestMeasured | None) -> Plan:
    host = gpu_host()
    cost = bandwidth_prices(host).model_copy(update={"largest": largest})
    return naive_plan(model(), host, [(ShardingType.TABLE_WISE, ComputeKernel.FUSED, None)] * 3, cost_model=cost)


def test_nothing_is_said_inside_the_range_or_of_datasheets() -> None:
    assert beyond_measured(plan(EVERYTHING)) == ()
    assert beyond_measured(plan(None)) == ()


@pytest.mark.parametrize(
    ("key", "words"),
    [("lookups", "looks up"), ("output_bytes", "pools"), ("sent_bytes", "sends"), ("dense_flops", "GFLOP a step")],
)
def test_each_quantity_has_its_line(key: str, words: str) -> None:
    (line,) = beyond_measured(plan(EVERYTHING.model_copy(update={key: 1.0})))
    assert words in line
    assert "measured" in line


def test_tables_of_one_type_on_a_rank_are_one_call() -> None:
    """Three tables on three ranks: the largest alone decides; all on one rank they add up."""
    apart = plan(EVERYTHING)
    together = apart.model_copy(
        update={
            "tables": tuple(
                table.model_copy(update={"shards": tuple(shard.model_copy(update={"rank": 0}) for shard in table.shards)})
                for table in apart.tables
            )
        }
    )
    most = max(_lookups(apart))
    between = EVERYTHING.model_copy(update={"lookups": (most + sum(_lookups(apart))) / 2})
    question = apart.question.model_copy(update={"cost_model": apart.question.cost_model.model_copy(update={"largest": between})})
    assert beyond_measured(apart.model_copy(update={"question": question})) == ()
    assert "rank 0 looks up" in beyond_measured(together.model_copy(update={"question": question}))[0]


def _lookups(one: Plan) -> list[float]:
    trainers, batch = one.num_trainers, one.question.model.local_batch_size
    return [trainers * batch * sum(feature.lengths.mean for feature in table.features) for table in one.question.model.tables]
