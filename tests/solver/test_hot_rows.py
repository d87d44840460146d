"""What MLPerf's DLRMv4 ran into: ids that lie by frequency in sequences that are split by rows."""

from __future__ import annotations

from functools import cache
from typing import Any

from benchmarks.device_prices import device_prices
from emplace.app.cli.output import as_text
from emplace.app.reports.plan_text import plan_view
from emplace.placement.audit import audit
from emplace.placement.catalog import builtin_host, builtin_model
from emplace.placement.derived_plan import derive_plan, imported_record
from emplace.placement.host import HostSpec
from emplace.placement.model import ComputeKernel, ModelSpec, ShardingType
from emplace.placement.plan import Plan, PlanOptions, PlanStatus, Question, Shard, TablePlacement
from emplace.placement.proof.verify import verify
from emplace.solver.certificate.prover import prove
from emplace.solver.solve import solve_question
from tests.placement.naive_plan import row_blocks

RANKS, HISTORIES = 8, ("item_id", "artist_id", "album_id")


def question(ids: str) -> Question:
    """DLRMv4 on 8 devices of 260 GiB."""
    data = builtin_host("dgx-h100").to_data()
    data["node"]["devices"][0]["hbm_capacity"] = "260GiB"
    host = HostSpec.model_validate(data)
    model = builtin_model("dlrmv4").to_data()
    for table in model["tables"]:
        table["ids"] = ids if table["name"] in HISTORIES else "hashed"
    options = PlanOptions.model_validate({"work_limit": 1.0, "tiers": ["hbm"]})
    return Question(model=ModelSpec.model_validate(model), host=host, cost_model=device_prices(host), options=options)


def row_wise(asked: Question) -> Plan:
    """Every table in TorchRec's blocks of rows."""

    def placed(table: Any) -> TablePlacement:
        blocks = enumerate(row_blocks(table.num_embeddings, RANKS))
        shards = tuple(Shard(rank=rank, rows=rows, columns=(0, 512), hbm_bytes=0, ddr_bytes=0) for rank, rows in blocks)
        return TablePlacement(name=table.name, sharding_type=ShardingType.ROW_WISE, compute_kernel=ComputeKernel.FUSED, shards=shards)

    topology = asked.topology(with_servers=False)
    return derive_plan(asked, tuple(placed(table) for table in asked.model.tables), topology, imported_record(asked, "0"))


@cache
def planned() -> Plan:
    return solve_question(question("by_frequency"))


def test_a_plan_is_found_where_heaviest_blocks_are_not_all_on_one_rank() -> None:
    """Charged with all of them, every rank of eight H200 seemed slower with two tables split by rows than with a copy of one of them."""
    host = builtin_host("dgx-h200")
    options = PlanOptions.model_validate({"work_limit": 1.0})
    plan = solve_question(Question(model=builtin_model("dlrmv4"), host=host, cost_model=device_prices(host), options=options))
    assert plan.gap is not None
    assert plan.gap < 0.01
    assert not audit(plan)


def test_row_wise_overfills_the_rank_with_the_hot_rows() -> None:
    plan = row_wise(question("by_frequency"))
    [flaw] = audit(plan)
    assert flaw.where == "/ranks/0/hbm_bytes"
    used = [rank.hbm_bytes for rank in plan.ranks]
    assert used[0] > 3 * max(used[1:])
    assert plan.hot_ranks is not None
    assert [(hot.table, hot.rank) for hot in plan.hot_ranks] == [(name, 0) for name in HISTORIES]
    assert all(7 < hot.times_mean < 8 for hot in plan.hot_ranks)
    assert "rank 0 gets 7.32 times the mean lookups of item_id" in as_text(plan_view(plan))
    assert audit(row_wise(question("hashed"))) == []


def test_the_plan_keeps_every_rank_within_its_memory() -> None:
    plan = planned()
    assert audit(plan) == []
    assert plan.status is PlanStatus.OPTIMAL
    assert max(rank.hbm_bytes / rank.hbm_capacity_bytes for rank in plan.ranks) < 0.75
    assert max(rank.hbm_bytes for rank in plan.ranks) <= 1.05 * sum(rank.hbm_bytes for rank in plan.ranks) / RANKS
    assert not {table.name for table in plan.tables if table.sharding_type is ShardingType.ROW_WISE} & set(HISTORIES)
    assert plan.step_time_us is not None
    assert plan.step_time_us < (row_wise(plan.question).step_time_us or 0) / 2


def test_its_bound_is_verified_without_the_solver() -> None:
    proven = verify(planned().model_copy(update={"proof": prove(planned())}))
    assert proven.holds
    assert proven.bound_us is not None
    assert (planned().step_time_us or 0) * 0.999 < proven.bound_us <= (planned().step_time_us or 0)


def test_the_audit_finds_what_is_wrongly_said_of_hot_ranks() -> None:
    plan = row_wise(question("by_frequency"))
    hot = plan.hot_ranks or ()
    assert [flaw.where for flaw in audit(plan.model_copy(update={"hot_ranks": None}))][1:] == ["/hot_ranks"]
    elsewhere = (hot[0].model_copy(update={"rank": 3}), *hot[1:])
    assert [flaw.where for flaw in audit(plan.model_copy(update={"hot_ranks": elsewhere}))][1:] == ["/hot_ranks"]
    cooler = (hot[0].model_copy(update={"times_mean": 2.0}), *hot[1:])
    assert [flaw.where for flaw in audit(plan.model_copy(update={"hot_ranks": cooler}))][1:] == ["/hot_ranks/0/times_mean"]
