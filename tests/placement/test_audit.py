"""The audit accepts every valid plan, and names the place of any change to one."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from emplace.placement.audit import audit
from emplace.placement.model import ComputeKernel, ShardingType
from emplace.placement.plan import Explanation, Fix, Plan, PlanOptions, PlanStatus, StoppedBy
from tests.placement.example_models import gpu_host, model, model_data
from tests.placement.naive_plan import Choice, naive_plan

FUSED, UVM, CACHED, DENSE = (
    (ComputeKernel.FUSED, None),
    (ComputeKernel.FUSED_UVM, None),
    (ComputeKernel.FUSED_UVM_CACHING, 0.2),
    (ComputeKernel.DENSE, None),
)


def choice(kind: ShardingType, kernel: tuple[ComputeKernel, float | None] = FUSED) -> Choice:
    return (kind, *kernel)


def mixed_plan() -> Plan:
    """One table row-wise, one column-wise behind a cache, one on every rank."""
    return naive_plan(
        model(),
        gpu_host(),
        [choice(ShardingType.ROW_WISE), choice(ShardingType.COLUMN_WISE, CACHED), choice(ShardingType.DATA_PARALLEL, DENSE)],
    )


def where_of(plan: Plan) -> set[str]:
    return {violation.where for violation in audit(plan)}


def tampered(plan: Plan, pointer: str, value: Any) -> Plan:
    """The plan with the value at a JSON pointer replaced."""
    data = plan.to_data()
    *parents, last = pointer.strip("/").split("/")
    place: Any = data
    for part in parents:
        place = place[int(part)] if isinstance(place, list) else place[part]
    place[int(last) if isinstance(place, list) else last] = value
    return Plan.model_validate(data)


@pytest.mark.parametrize("kind", [kind for kind in ShardingType if kind is not ShardingType.DATA_PARALLEL])
@pytest.mark.parametrize("kernel", [FUSED, UVM, CACHED])
@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "rowwise_adagrad", "adam"])
def test_naive_plans_of_every_sharding_type_are_sound(
    kind: ShardingType, kernel: tuple[ComputeKernel, float | None], optimizer: str
) -> None:
    assert audit(naive_plan(model(optimizer=optimizer), gpu_host(), [choice(kind, kernel)] * 3)) == []


def test_mixed_and_remote_plans_are_sound() -> None:
    assert audit(mixed_plan()) == []
    remote = [choice(ShardingType.TABLE_WISE), choice(ShardingType.COLUMN_WISE), choice(ShardingType.TABLE_WISE)]
    assert audit(naive_plan(model(), gpu_host(), remote, with_servers=True)) == []


FREE = {"/solver/seconds", "/solver/bound", "/solver/moves", "/solver/version", "/question/options/gap"}
"""What no question decides, and the asked gap of a plan that doesn't claim to have reached it."""


def leaves(value: Any, pointer: str = "") -> list[str]:
    if isinstance(value, dict):
        return [leaf for key, part in value.items() for leaf in leaves(part, f"{pointer}/{key}")]
    if isinstance(value, list):
        return [leaf for index, part in enumerate(value) for leaf in leaves(part, f"{pointer}/{index}")]
    return [pointer]


def value_at(data: Any, pointer: str) -> Any:
    for part in pointer.strip("/").split("/"):
        data = data[int(part)] if isinstance(data, list) else data[part]
    return data


DECIDE_OTHER_FIGURES = {"/status", "/lower_bound_us", "/tables/1/cache_load_factor"}
"""What other figures follow from, so that those are named."""

SOUND_TOO = {("/tables/1/sharding_type", ShardingType.TABLE_COLUMN_WISE)}
"""The pieces of the column-wise table lie on one node."""

PLAN = mixed_plan()
DATA = PLAN.to_data()
LEAVES = [leaf for leaf in leaves(DATA) if leaf not in FREE]


@settings(max_examples=1000)
@given(pointer=st.sampled_from(LEAVES), draw=st.data())
def test_any_changed_value_is_noticed(pointer: str, draw: st.DataObject) -> None:
    value = value_at(DATA, pointer)
    if isinstance(value, bool):
        other: Any = not value
    elif isinstance(value, int):
        other = value + draw.draw(st.integers(-(2**33), 2**33).filter(bool))
    elif isinstance(value, float):
        other = value + draw.draw(st.sampled_from([-1.0, 1.0])) * draw.draw(st.floats(1e-5, 1e3)) * max(abs(value), 1.0)
    else:
        words = [*ShardingType, *ComputeKernel, "infeasible", "optimal", "p95", "x"]
        other = draw.draw(st.sampled_from([word for word in words if word != value and (pointer, word) not in SOUND_TOO]))
    try:
        plan = tampered(PLAN, pointer, other)
    except ValidationError:
        return
    found = where_of(plan)
    assert found, f"{pointer}: {value} -> {other} went unnoticed"
    if not pointer.startswith("/question") and pointer not in DECIDE_OTHER_FIGURES:
        place = "/".join(pointer.split("/")[: 3 if pointer.startswith(("/tables", "/ranks", "/nodes")) else 2])
        assert any(where.startswith(place) or where == "/tables" for where in found), f"{pointer}: named only {found}"


def test_what_tells_the_figures() -> None:
    plan = tampered(PLAN, "/tables/0/shards/1/hbm_bytes", 7)
    expected = PLAN.tables[0].shards[1].hbm_bytes
    assert [str(violation) for violation in audit(plan)] == [f"/tables/0/shards/1/hbm_bytes: table a: is 7, must be {expected}"]


@pytest.mark.parametrize(
    ("pointer", "value", "where", "what"),
    [
        ("/tables/0/name", "zz", "/tables/0/name", "no table zz"),
        ("/tables/0/name", "b", "/tables/1/name", "placed twice"),
        ("/tables/0/name", "b", "/tables", "the table a is nowhere"),
        ("/tables/0/shards/7/rank", 8, "/tables/0/shards/7/rank", "no rank 8"),
        ("/tables/0/shards/7/rank", 6, "/tables/0/shards", "rank"),
        ("/tables/0/shards/0/rows", [0, 124], "/tables/0/shards", "rows 124..125 are in no shard"),
        ("/tables/0/shards/0/rows", [0, 126], "/tables/0/shards", "rows 125..126 are in more than one shard"),
        ("/tables/0/shards/7/rows", [875, 1001], "/tables/0/shards/7/rows", "1000 rows"),
        ("/tables/1/shards/0/columns", [0, 22], "/tables/1/shards/0/columns", "divisible by 4"),
        ("/tables/1/shards/0/columns", [0, 20], "/tables/1/shards", "columns 20..24 are in no shard"),
        ("/tables/1/shards/1/rank", 1, "/tables/1/shards", "rank of its own"),
        ("/tables/1/cache_load_factor", None, "/tables/1/cache_load_factor", "fused_uvm_caching"),
        ("/tables/0/compute_kernel", "dense", "/tables/0/compute_kernel", "data_parallel"),
        ("/tables/2/shards/3/rank", 2, "/tables/2/shards", "missing on ranks 3"),
        ("/tables/2/shards/3/rows", [0, 49_999], "/tables/2/shards/3", "whole table"),
        ("/nodes/0/ddr_capacity_bytes", 1, "/nodes/0/ddr_capacity_bytes", "the host gives"),
        ("/ranks/3/node", 1, "/ranks/3/node", "the host gives 0"),
        ("/status", "optimal", "/status", "gap of 0.5"),
        ("/status", "infeasible", "/tables", "must be empty"),
        ("/lower_bound_us", 1e12, "/lower_bound_us", "between 0 and the step time"),
        ("/question/options", {"ranks": 7}, "/question/options/ranks", "multiple"),
        ("/question/options", {"tiers": ["hbm"]}, "/tables/1/compute_kernel", "the question allows hbm"),
        ("/question/options", {"seed": 3}, "/solver/seed", "asks for 3"),
        ("/question/cost_model/dense/0/device", "other", "/question/cost_model/dense", "no dense layers for gpu"),
        ("/question/cost_model/kernels/0/device", "other", "/tables/0/compute_kernel", "no fused kernel for gpu"),
        ("/question/model/tables/0/name", "other", "/tables", "the table other is nowhere"),
        ("/question/host/nodes", 3, "/ranks", "lists 8 ranks, the job has 12"),
    ],
)
def test_each_rule_names_its_place(pointer: str, value: Any, where: str, what: str) -> None:
    found = audit(tampered(PLAN, pointer, value))
    assert any(violation.where == where and what in violation.what for violation in found), found


def test_a_plan_within_the_gap_that_was_asked_for_is_not_optimal_for_it() -> None:
    assert PLAN.step_time_us is not None
    assert PLAN.status is PlanStatus.FEASIBLE
    options = PLAN.question.options.model_copy(update={"gap": 0.05})
    close = {"question": PLAN.question.model_copy(update={"options": options}), "lower_bound_us": PLAN.step_time_us * 0.96, "gap": 0.04}
    assert "/status" not in where_of(PLAN.model_copy(update=close))
    assert "/status" in where_of(PLAN.model_copy(update=close | {"status": PlanStatus.OPTIMAL}))


@pytest.mark.parametrize(("share", "where"), [(1.0, set()), (1.001, {"/lower_bound_us"})])
def test_no_lower_bound_is_above_the_step_time(share: float, where: set[str]) -> None:
    assert PLAN.step_time_us is not None
    proven = {"lower_bound_us": PLAN.step_time_us * share, "gap": 0.0, "status": PlanStatus.OPTIMAL, "placement_gap": None}
    assert where_of(PLAN.model_copy(update=proven)) == where


PLACED = ("tables", "ranks", "nodes")
FOLLOWS = (
    "step_time_us",
    "throughput_samples_per_s",
    "imbalance",
    "gap",
    "placement_gap",
    "diagnosis",
    "hot_ranks",
    "moved_bytes",
    "move_cost_us",
)


def unplaced(*reasons: str) -> Plan:
    """What says of the same question that nothing fits."""
    told: dict[str, Any] = {"status": PlanStatus.INFEASIBLE, "explanation": Explanation(reasons=reasons), "lower_bound_us": None}
    told["solver"] = PLAN.solver.model_copy(update={"stopped_by": StoppedBy.PROOF})
    return PLAN.model_copy(update=told | dict.fromkeys(PLACED, ()) | dict.fromkeys(FOLLOWS))


def test_what_does_not_fit_says_why() -> None:
    assert where_of(unplaced("hbm: 12 bytes over")) == set()
    assert where_of(unplaced()) == where_of(unplaced().model_copy(update={"explanation": None})) == {"/explanation"}


@pytest.mark.parametrize("key", [*PLACED, *FOLLOWS])
def test_what_follows_from_a_placement_goes_without_it(key: str) -> None:
    of_a_placement = getattr(PLAN, key) or 1.0  # no model reads it again
    assert where_of(unplaced("hbm: 12 bytes over").model_copy(update={key: of_a_placement})) == {f"/{key}"}


@pytest.mark.parametrize(
    ("constraints", "where"),
    [
        ({"tiers": ["ddr"]}, "/tables/0/compute_kernel"),
        ({"sharding_types": ["table_wise"]}, "/tables/0/sharding_type"),
        ({"compute_kernels": ["fused_uvm"]}, "/tables/0/compute_kernel"),
        ({"ranks": [0, 1, 2]}, "/tables/0/shards"),
    ],
)
def test_constraints_are_held(constraints: dict[str, Any], where: str) -> None:
    data = model_data()
    data["tables"][0]["constraints"] = constraints
    plan = naive_plan(model(tables=data["tables"]), gpu_host(), [choice(ShardingType.ROW_WISE)] * 3)
    assert where_of(plan) == {where}


def test_rows_must_be_split_evenly_as_torchrec_does() -> None:
    shards = copy.deepcopy(DATA["tables"][0]["shards"])
    shards[0]["rows"], shards[1]["rows"] = [0, 100], [100, 250]
    found = audit(tampered(PLAN, "/tables/0/shards", shards))
    assert {violation.where for violation in found} == {"/tables/0/shards/0/rows", "/tables/0/shards/1/rows"}
    assert "must be [0, 125]" in found[0].what


def test_blocks_must_follow_the_ranks() -> None:
    shards = copy.deepcopy(DATA["tables"][0]["shards"])
    shards[0]["rank"], shards[1]["rank"] = 1, 0
    assert where_of(tampered(PLAN, "/tables/0/shards", shards)) == {"/tables/0/shards"}


def test_a_missing_shard_leaves_rows_uncovered() -> None:
    found = audit(tampered(PLAN, "/tables/0/shards", DATA["tables"][0]["shards"][:-1]))
    assert any("rows 875..1000 are in no shard" in violation.what for violation in found)


@pytest.mark.parametrize("kind", [ShardingType.ROW_WISE, ShardingType.TABLE_ROW_WISE])
def test_row_splits_do_not_go_with_servers(kind: ShardingType) -> None:
    whole = choice(ShardingType.TABLE_WISE)
    plan = naive_plan(model(), gpu_host(), [whole] * 3, with_servers=True)
    row_wise = naive_plan(model(), gpu_host(), [choice(kind), whole, whole]).to_data()["tables"][0]
    assert "/tables/0/sharding_type" in where_of(tampered(plan, "/tables/0", row_wise))


def test_capacity_is_held_per_rank_and_node() -> None:
    host = gpu_host()
    small = host.node.devices[0].model_copy(update={"hbm_capacity": 100 * 2**20 + 1000})
    node = host.node.model_copy(update={"devices": (small,), "ddr_capacity": 2**30 + 1000})
    plan = naive_plan(model(), host.model_copy(update={"node": node}), [choice(ShardingType.TABLE_WISE, UVM)] * 3)
    found = {violation.where: violation.what for violation in audit(plan)}
    assert "/nodes/0/ddr_bytes" in found
    needed = plan.nodes[0].ddr_bytes
    assert found["/nodes/0/ddr_bytes"] == f"node 0 needs {needed} bytes and has 1000: {needed - 1000} over"
    assert "/ranks/2/hbm_bytes" in found


@pytest.mark.parametrize(("spare", "where"), [(0, set()), (-1, {"/ranks/2/hbm_bytes"})])
def test_capacity_is_held_to_the_byte(spare: int, where: set[str]) -> None:
    kinds = [choice(ShardingType.TABLE_WISE)] * 3
    fullest = max(naive_plan(model(), gpu_host(), kinds).ranks, key=lambda rank: rank.hbm_bytes)
    assert fullest.rank == 2
    host = gpu_host()
    device = host.node.devices[0].model_copy(update={"hbm_reserve": 0, "hbm_capacity": fullest.hbm_bytes + spare})
    exact = host.model_copy(update={"node": host.node.model_copy(update={"devices": (device,)})})
    assert where_of(naive_plan(model(), exact, kinds)) == where


def test_uvm_needs_a_gpu_and_adam_too() -> None:
    host = gpu_host().model_dump(mode="json", exclude_none=True)
    host["node"]["devices"] = [{"kind": "cpu", "type": "cpu", "count": 2, "memory_bandwidth": "100GB/s", "fp32_flops": "1TFLOP/s"}]
    on_cpu = type(gpu_host()).model_validate(host)
    assert audit(naive_plan(model(), on_cpu, [choice(ShardingType.ROW_WISE)] * 3)) == []
    adam = naive_plan(model(optimizer="adam"), on_cpu, [choice(ShardingType.TABLE_WISE)] * 3)
    assert any("adam" in violation.what for violation in audit(adam))
    uvm = naive_plan(model(), on_cpu, [choice(ShardingType.TABLE_WISE)] * 3)
    assert "/tables/0/compute_kernel" in where_of(tampered(uvm, "/tables/0/compute_kernel", "fused_uvm"))


def test_options_reach_the_figures() -> None:
    for options in (PlanOptions(ranks=2), PlanOptions(nodes=1), PlanOptions(objective="p95")):
        kinds = [choice(ShardingType.ROW_WISE), choice(ShardingType.GRID_SHARD), choice(ShardingType.TABLE_COLUMN_WISE)]
        assert audit(naive_plan(model(), gpu_host(), kinds, options)) == []


@pytest.mark.parametrize(
    ("stopped_by", "changes", "says"),
    [
        ("exact", {"gap": 0.01, "status": "feasible"}, "the gap is 0.01"),
        ("gap", {"gap": 0.03, "status": "feasible"}, "the gap is 0.03"),
        ("time", {}, "the limit is of work"),
        ("proof", {}, "the plan is feasible"),
    ],
)
def test_a_search_ended_as_the_plan_can_tell(stopped_by: str, changes: dict[str, Any], says: str) -> None:
    plan = mixed_plan()
    assert plan.step_time_us is not None
    bound_us = plan.step_time_us * (1 - changes.get("gap", 0.0)) if changes else None
    known = {} if bound_us is None else changes | {"lower_bound_us": bound_us, "status": PlanStatus(changes["status"])}
    told = plan.model_copy(update={**known, "solver": plan.solver.model_copy(update={"stopped_by": StoppedBy(stopped_by)})})
    assert [each.what for each in audit(told) if each.where == "/solver/stopped_by"] == [f"is {stopped_by}, but {says}"]
    with pytest.raises(ValidationError):
        tampered(plan, "/solver/stopped_by", "banana")


def test_what_is_infeasible_has_no_bound_and_names_tables_and_fixes_that_there_are() -> None:
    explanation = Explanation(reasons=("too much",), fixes=(Fix(kind="none", change="nothing", verified=True),), tables=("nosuch",))
    found = where_of(unplaced("too much").model_copy(update={"explanation": explanation, "lower_bound_us": 5.0}))
    assert found >= {"/lower_bound_us", "/explanation/tables", "/explanation/fixes/0/patch"}
