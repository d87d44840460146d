"""Plans for DMPCollection: of one sharding group, with the ranks that hold the same shards as DMPCollection groups them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from torchrec.distributed.model_parallel import DMPCollection
from torchrec.distributed.planner import ParameterConstraints
from torchrec.distributed.planner.planners import validate_rank_assignment
from torchrec.distributed.planner.types import PlannerError
from torchrec.distributed.types import ShardingPlan

from emplace.torchrec import EmplaceShardingPlanner
from tests.torchrec.models import config, model, planner, sharders, shards, topology

pytestmark = pytest.mark.torch

BY_ROWS = {"a": ParameterConstraints(sharding_types=["row_wise"])}


def _planner(size: int, world: int = 8, per_node: int = 4, **more: Any) -> EmplaceShardingPlanner:
    return planner(topology(world, local_world_size=per_node, hbm_cap=2**32), sharding_group_size=size, constraints=BY_ROWS, **more)


@pytest.mark.parametrize(
    ("size", "contiguous", "local"), [(4, False, 2), (4, True, 4), (2, False, 1), (2, True, 2), (8, False, 4), (8, True, 4)]
)
def test_the_plan_is_one_groups_and_torchrec_maps_it_to_each(size: int, contiguous: bool, local: int) -> None:
    made = _planner(size, use_inter_host_allreduce=contiguous)
    assert made.last_plan is None
    plan = made.plan(model(config("a")), sharders())
    assert shards(plan)["a"].ranks == list(range(size))
    validate_rank_assignment(plan, topology(size))
    assert made.last_plan is not None
    assert len(made.last_plan.ranks) == size
    assert {rank.hbm_capacity_bytes for rank in made.last_plan.ranks} == {2**32 - 2**28}
    assert [rank.node for rank in made.last_plan.ranks] == [rank // local for rank in range(size)]
    mapped = [_mapped(plan, job_rank, size, contiguous) for job_rank in range(8)]
    assert made.replica_groups == [sorted({ranks[number] for ranks in mapped}) for number in range(size)]


def _mapped(plan: ShardingPlan, job_rank: int, size: int, contiguous: bool) -> list[int]:
    """Where TorchRec puts the plan's shards on the group of a rank, by the method of DMPCollection, which itself needs CUDA."""
    mapped = copy.deepcopy(plan)
    shards(mapped)["a"].sharding_spec = None  # its placements need a process group
    DMPCollection._remap_sharding_plan(
        None,
        plan=mapped,
        rank=job_rank,
        step=8 // size,
        sharding_group_size=size,
        use_inter_host_allreduce=contiguous,
    )
    ranks: list[int] = shards(mapped)["a"].ranks
    return ranks


def test_without_groups_each_rank_is_by_itself() -> None:
    assert planner(topology(3)).replica_groups == [[0], [1], [2]]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"size": 3}, "sharding_group_size: must divide the topology's 8 ranks, it is 3"),
        ({"size": 4, "world": 24, "per_node": 8, "use_inter_host_allreduce": False}, "groups of 4 ranks don't lie evenly on nodes of 8"),
        ({"size": 4, "host": "dgx-h100"}, "host: a sharding group has a part of each node only"),
    ],
)
def test_groups_that_can_not_be_planned_for(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(PlannerError, match=named):
        _planner(**arguments)
