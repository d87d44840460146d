"""Peaks of single ranks on CPUs, where a model has sequences, against cases worked out by hand."""

from __future__ import annotations

from typing import Any

from emplace.placement.audit import audit
from emplace.placement.host import HostSpec
from emplace.placement.model import ComputeKernel, ModelSpec, ShardingType
from emplace.placement.plan import Plan, PlanOptions
from tests.placement.example_models import gpu_host, model
from tests.placement.naive_plan import naive_plan

CPUS = {"kind": "cpu", "type": "cpu", "count": 2, "memory_bandwidth": "100GB/s", "fp32_flops": "1TFLOP/s"}
SEQUENCES = {"path": "history", "pooling": "none"}


def cpu_host() -> HostSpec:
    host = gpu_host().to_data()
    host["node"]["devices"] = [CPUS]
    return HostSpec.model_validate(host)


def one_sequence(rows: int = 2, **changes: Any) -> ModelSpec:
    """10 examples a rank of 5 ids each: 50 ids of its own, 100 of both ranks, of 8 columns."""
    table = {"name": "t", "num_embeddings": rows, "embedding_dim": 8, "features": [{"name": "f", "length": {"fixed": 5}}]}
    return model(tables=[table], local_batch_size=10, modules=[SEQUENCES], **changes)


def planned(kind: ShardingType, spec: ModelSpec, host: HostSpec) -> Plan:
    return naive_plan(spec, host, [(kind, ComputeKernel.FUSED, None)], PlanOptions(nodes=1, ranks=2))


def own_bytes(plan: Plan) -> list[int]:
    """What each rank peaks at, without its shards."""
    return [_without_shards(plan, rank) for rank in range(2)]


VECTORS = 50 * 8 * 4
"""One rank's own vectors, of 8 floats."""
OWN = 2 * VECTORS + 50 * 8 + 10 * 8 * 4
"""They and their gradients, the number of each id's example, and a gradient for each example's mean."""
OF_ROWS = 2 * (480 + 8 * 4)
"""Gradients of both rows, which are added up when all of that is gone."""
IDS = 100 * 8
"""Ids of all ranks, which a shard of whole rows holds once more while it sends."""


def test_a_rank_that_sends_nothing_holds_what_it_asked_for() -> None:
    plan = planned(ShardingType.TABLE_WISE, one_sequence(), cpu_host())
    sender, other = own_bytes(plan)
    assert other - sender == OWN + OF_ROWS - IDS, "the sender's shard holds two copies of all vectors, which is more than its own twice"
    of_ranks = sum(load.ddr_bytes for load in plan.ranks)
    assert plan.nodes[0].ddr_bytes == of_ranks - OWN + OF_ROWS - IDS, (
        "ranks peak at different moments, and shards hold all that they ever do"
    )
    assert audit(plan) == []


def test_ranks_that_send_as_much_as_they_receive() -> None:
    _, other = own_bytes(planned(ShardingType.TABLE_WISE, one_sequence(), cpu_host()))
    places = 50 * 16
    assert own_bytes(planned(ShardingType.ROW_WISE, one_sequence(), cpu_host())) == [other + places - 2 * VECTORS - OF_ROWS // 2] * 2


def test_a_rank_that_adds_up_gradients_of_many_rows_is_fullest_then() -> None:
    """Some 90 rows of 100 ids have a gradient each, in 512 bytes: more than one of the two copies of all vectors."""
    sender, other = own_bytes(planned(ShardingType.TABLE_WISE, one_sequence(rows=1000), cpu_host()))
    assert other - sender == OWN + 2 * VECTORS


def test_of_pooled_vectors_only_gradients_are_there_when_sequences_are_at_their_fullest() -> None:
    """A pooled table of a later module is on one rank, which holds no sequence: of 20 vectors of 8 floats, its own bags and the other's, the
    gradients came when the rank puts those of its own sequences together, and neither the vectors nor their copies are there."""
    tables = [
        {"name": "t", "num_embeddings": 2, "embedding_dim": 8, "module": "history", "features": [{"name": "f", "length": {"fixed": 5}}]},
        {"name": "p", "num_embeddings": 1000, "embedding_dim": 8, "module": "profile", "features": [{"name": "g", "length": {"fixed": 1}}]},
    ]
    spec = model(tables=tables, local_batch_size=10, modules=[SEQUENCES, {"path": "profile"}])
    whole = (ShardingType.TABLE_WISE, ComputeKernel.FUSED, None)
    plan = naive_plan(spec, cpu_host(), [whole, whole], PlanOptions(nodes=1, ranks=2))
    [of_t], [of_p] = plan.tables[0].shards, plan.tables[1].shards
    assert (of_t.rank, of_p.rank) == (0, 1)
    copies, own = 20 * 8 * 4, OWN - min(50 * 8 + 10 * 8 * 4, 10 * 8 * 3 // 2 * 4)
    peak = [load.ddr_bytes - shard.ddr_bytes for load, shard in zip(plan.ranks, (of_t, of_p), strict=True)]
    assert peak[1] - peak[0] == own + copies - 2 * copies + OF_ROWS - IDS
    assert audit(plan) == []


def test_types_of_sharding_take_turns() -> None:
    """One sequence is in rows and one in one piece, in either order: of both a rank has as many vectors of its own.

    The owner of the whole one peaks when it looks up: the copy of the first one's vectors that it sends and two of the second one's, or both
    as they were looked up and the copy, and its own of the first one came. The other rank peaks when it puts the first one's gradients
    together: both of its own, and the first one's once more; if the second one is in rows, the first half of its gradients came meanwhile.
    """
    table = one_sequence().to_data()["tables"][0]
    tables = [table, table | {"name": "u", "features": [{"name": "g", "length": {"fixed": 5}}]}]
    spec = model(tables=tables, local_batch_size=10, modules=[SEQUENCES])
    row_wise, whole = ((kind, ComputeKernel.FUSED, None) for kind in (ShardingType.ROW_WISE, ShardingType.TABLE_WISE))
    rows_first, whole_first = (
        naive_plan(spec, cpu_host(), each, PlanOptions(nodes=1, ranks=2)) for each in ([row_wise, whole], [whole, row_wise])
    )
    assert audit(rows_first) == []
    assert audit(whole_first) == []
    put_together = 3 * VECTORS + 2 * (50 * 8 + 10 * 8 * 4) + 50 * 16
    looked_up = 6 * VECTORS + IDS - (4 * VECTORS + OF_ROWS)  # without what the whole one's shard ever holds
    owners, others = zip(*(_owner_and_other(plan, whole) for plan, whole in ((rows_first, 1), (whole_first, 0))), strict=True)
    assert owners[0] - others[0] == looked_up - put_together
    assert owners[1] - others[1] == looked_up - put_together - VECTORS // 2
    assert others[1] - others[0] == VECTORS // 2


def _owner_and_other(plan: Plan, whole: int) -> tuple[int, int]:
    """What the rank with that table, and the other one, peaks at without its shards."""
    owner = plan.tables[whole].shards[0].rank
    return _without_shards(plan, owner), _without_shards(plan, 1 - owner)


def _without_shards(plan: Plan, rank: int) -> int:
    """What a rank peaks at, without its shards."""
    return plan.ranks[rank].ddr_bytes - sum(shard.ddr_bytes for table in plan.tables for shard in table.shards if shard.rank == rank)


def test_only_ranks_on_cpus_have_peaks_of_their_own() -> None:
    plan = planned(ShardingType.TABLE_WISE, one_sequence(), gpu_host())
    assert [load.ddr_bytes for load in plan.ranks] == [0, 0]
    assert audit(plan) == []


def test_the_audit_finds_a_peak_that_is_reckoned_by_shards() -> None:
    plan = planned(ShardingType.TABLE_WISE, one_sequence(), cpu_host())
    idle = plan.ranks[1].model_copy(update={"ddr_bytes": plan.ranks[1].ddr_bytes - OWN})
    [finding] = audit(plan.model_copy(update={"ranks": (plan.ranks[0], idle)}))
    assert finding.where == "/ranks/1/ddr_bytes"
