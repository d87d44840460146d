"""Plan: the answer to one question, with everything needed to check it again."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from emplace.placement.certificate import Proof
from emplace.placement.cost_model import CostModel, CostSource
from emplace.placement.diagnosis import Diagnosis
from emplace.placement.document import Document, Patch, broken_rule
from emplace.placement.earlier_versions import plan_of_version_1, question_of_version_1
from emplace.placement.host import HOST_CPUS, MAX_RANKS, HostSpec
from emplace.placement.model import ComputeKernel, ModelSpec, Name, ShardingType, Tier
from emplace.placement.overflow import refuse_uncountable
from emplace.placement.reserve import Reserve
from emplace.placement.stages import Stage
from emplace.placement.topology import Topology, allowed_tiers, build_topology, is_asked_for
from emplace.placement.unpriced import refuse_unpriced
from emplace.placement.workload import Objective

Bytes = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(strict=True, gt=0, le=86_400)]
DEFAULT_LIMIT_S = 10.0
"""The limit of work or of time, where none is asked for."""


class LimitKind(StrEnum):
    """What a limit in seconds counts: work, or the time that passes."""

    WORK = "work"
    TIME = "time"


class PlanStatus(StrEnum):
    """`optimal` and `feasible` carry a placement; `infeasible` is proven; `undecided` ran into its limit with neither."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNDECIDED = "undecided"


class Shard(Document):
    """`rows` and `columns` are [start, end) of the table. Bytes are at peak, buffers included."""

    rank: Annotated[int, Field(ge=0)]
    rows: tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]]
    columns: tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]]
    hbm_bytes: Bytes
    ddr_bytes: Bytes


class TablePlacement(Document):
    """Where one table is: how it is sharded, by which kernel, and its shards."""

    name: Name
    sharding_type: ShardingType
    compute_kernel: ComputeKernel
    cache_load_factor: Annotated[float, Field(gt=0, le=1)] | None = None
    shards: tuple[Shard, ...]


def _start_with_its_price(schema: dict[str, Any]) -> None:
    """In the schema, too: both are there, or neither."""
    neither = {"start": {"type": "null"}, "move_price_us_per_gib": {"type": "null"}}
    both = {"start": {"type": "array"}, "move_price_us_per_gib": {"type": "number"}}
    schema["anyOf"] = [{"properties": neither}, {"properties": both, "required": list(both)}]


class PlanOptions(Document):
    """How to answer: what of the host to use, what to minimise, when to stop."""

    model_config = ConfigDict(json_schema_extra=_start_with_its_price)

    nodes: Annotated[int, Field(strict=True, gt=0, le=4096)] | None = None
    ranks: Annotated[int, Field(strict=True, gt=0, le=MAX_RANKS)] | None = None
    tiers: Annotated[tuple[Tier, ...], Field(min_length=1)] | None = None
    hbm_reserve: Reserve | None = None
    """What stays free of tables and buffers on each CUDA device, beside what the host reserves; a share is of the whole memory."""
    ddr_reserve: Reserve | None = None
    """What stays free of each node's system memory and each remote server's, likewise."""
    start: tuple[TablePlacement, ...] | None = None
    """Where tables are now: the `tables` of the plan that a job runs under."""
    move_price_us_per_gib: Annotated[float, Field(strict=True, ge=0)] | None = None
    """Step time that a plan must save for each GiB that it moves away from `start`."""
    objective: Objective = Objective.MEAN
    time_limit: Seconds | None = None
    """Seconds of the wall, everything counted: what the machine does besides decides how far the solve gets."""
    work_limit: Seconds | None = None
    """Counted seconds of a reference core: the same question gets the same plan on any machine. 10 where there is no other limit."""
    gap: Annotated[float, Field(strict=True, ge=0, lt=1)] = 0.001
    """Stop as soon as the plan is proven this close to the best."""
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**31)] = 0

    @property
    def limits(self) -> dict[LimitKind, float]:
        """The limits that are set, in seconds; one at least. Whichever is reached first ends the solve."""
        given = {LimitKind.WORK: self.work_limit, LimitKind.TIME: self.time_limit}
        return {kind: seconds for kind, seconds in given.items() if seconds is not None}

    def allows(self, tier: Tier) -> bool:
        """Whether tables may live there, if the host has it. CPU lookups have to be asked for."""
        return is_asked_for(tier, self.tiers)

    def topology(self, host: HostSpec, *, with_servers: bool) -> Topology:
        """The ranks to plan for, reserves taken off. Raises InvalidDocument for ranks or reserves that the host can't have."""
        reserves = {"hbm_reserve": self.hbm_reserve, "ddr_reserve": self.ddr_reserve}
        return build_topology(host, self.nodes, self.ranks, with_servers=with_servers, cpu_lookups=self.allows(Tier.CPU), **reserves)

    @model_validator(mode="before")
    @classmethod
    def _of_work_unless_another_limit(cls, data: Any) -> Any:
        has_other = not isinstance(data, dict) or any(data.get(f"{kind}_limit") is not None for kind in LimitKind)
        return data if has_other else data | {"work_limit": DEFAULT_LIMIT_S}

    @model_validator(mode="after")
    def _cpu_lookups_go_with_device_memory(self) -> PlanOptions:
        if self.allows(Tier.CPU) and (others := set(self.tiers or ()) - {Tier.CPU, Tier.HBM}):
            rule = f"cpu goes with hbm alone: system memory is looked up by CPUs or by devices; ask another question for {' and '.join(sorted(others))}"
            raise broken_rule("/tiers", ",".join(self.tiers or ()), rule)
        return self

    @model_validator(mode="after")
    def _moving_has_a_start_and_a_price(self) -> PlanOptions:
        if (self.start is None) != (self.move_price_us_per_gib is None):
            raise broken_rule("/start", "", "start and move_price_us_per_gib go together")
        names = [placement.name for placement in self.start or ()]
        if len(set(names)) != len(names):
            raise broken_rule("/start", "", "must name each table once")
        return self


def by_the_clock(options: Mapping[str, Any]) -> dict[str, Any]:
    """The data of options, with the usual limit of time where they set no limit: for who waits for the answer."""
    has_limit = any(options.get(f"{kind}_limit") is not None for kind in LimitKind)
    return dict(options) if has_limit else dict(options) | {"time_limit": DEFAULT_LIMIT_S}


class Question(Document):
    """Everything that decides the answer. One that was stored without a version is of the first."""

    schema_version: Literal[2] = 2
    model: ModelSpec
    host: HostSpec
    cost_model: CostModel
    options: PlanOptions

    @property
    def allowed_tiers(self) -> frozenset[Tier]:
        """The tiers that the host has and the options allow."""
        return frozenset(allowed_tiers(self.host, self.options.tiers))

    @model_validator(mode="before")
    @classmethod
    def _of_version_1(cls, data: Any) -> Any:
        return question_of_version_1(data) if isinstance(data, dict) and "schema_version" not in data else data

    @model_validator(mode="after")
    def _cpu_lookups_have_a_price(self) -> Question:
        cost = self.cost_model
        needed = (
            cost.kernel(HOST_CPUS, ComputeKernel.FUSED),
            cost.all_to_all.per_device_link_byte_us,
            cost.id_exchange.per_device_link_byte_us,
        )
        if self.options.allows(Tier.CPU) and self.host.has_cpu_lookups and None in needed:
            rule = f"has no prices of {HOST_CPUS}, which the tier cpu needs: take the datasheet's, or leave the tier out"
            raise broken_rule("/cost_model/kernels", "", rule)
        return self

    @model_validator(mode="after")
    def _dense_servers_have_a_price(self) -> Question:
        asked, priced = self.host.dense_servers, self.cost_model.dense_servers
        if (asked and (asked.count, asked.every)) != (priced and (priced.count, priced.every)):
            rule = "must be of the host's dense_servers, which prices that were measured or are of another host are not: "
            raise broken_rule("/cost_model/dense_servers", "", rule + "take the datasheet's, or leave dense_servers out of the host")
        return self

    def topology(self, *, with_servers: bool) -> Topology:
        """The ranks of the question's host, as the options ask. Raises InvalidDocument, also where the model's bytes can't be counted,
        dense layers have no price or a step would take no time."""
        topology = self.options.topology(self.host, with_servers=with_servers)
        refuse_uncountable(self.model, topology)
        refuse_unpriced(self.cost_model, self.model, topology)
        return topology


class JobSize(Document):
    """So many trainers on so many nodes."""

    nodes: Annotated[int, Field(strict=True, gt=0)]
    ranks: Annotated[int, Field(strict=True, gt=0)]


class FewestDevices(Document):
    """For the objective `devices`: the size of the plan's job, and what is known of every smaller one (of all, without a plan)."""

    size: JobSize | None = None
    impossible: tuple[JobSize, ...]
    """Smaller sizes that are proven too small."""
    undecided: tuple[JobSize, ...]
    """Smaller sizes for which neither a plan nor a proof was found within the limit."""


def job_sizes(question: Question) -> list[JobSize]:
    """The sizes that the objective `devices` chooses from, smallest first: any number of ranks on one node, then whole nodes.

    At most the nodes and ranks that the question asks for. Raises InvalidDocument for those that the host can't have.
    """
    most = question.topology(with_servers=False)
    nodes, local = most.trainer_nodes, most.trainers_per_node
    one_node = [JobSize(nodes=1, ranks=ranks) for ranks in range(1, local + 1)]
    return one_node + [JobSize(nodes=count, ranks=count * local) for count in range(2, nodes + 1)]


def sized(question: Question, size: JobSize) -> Question:
    """The question about a job of this size."""
    options = question.options.model_copy(update={"nodes": size.nodes, "ranks": size.ranks})
    return question.model_copy(update={"options": options})


class ModelReference(Document):
    """The model or the host that a plan is for, by name and digest."""

    name: Name
    digest: str


class CostModelReference(Document):
    """The cost model that a plan is priced with, by source and digest."""

    source: CostSource
    digest: str


class RankLoad(Document):
    """One rank under the plan. `hbm_bytes` and `ddr_bytes` include what it holds apart from its shards."""

    rank: int
    node: int
    device: Name
    is_server: bool = False
    hbm_bytes: Bytes
    hbm_capacity_bytes: int
    ddr_bytes: Bytes
    step_time_us: float
    """This rank's own work: the sum of its stages."""
    stages_us: dict[Stage, float]


class NodeLoad(Document):
    """One node's system memory under the plan: that of its ranks together."""

    node: int
    ddr_bytes: Bytes
    ddr_capacity_bytes: int


class HotRank(Document):
    """The rank that gets the most lookups of a table that is split by rows, and more than others do."""

    table: Name
    rank: int
    times_mean: float
    """Its lookups over the mean of the ranks that hold the table."""


class Fix(Document):
    """A change that makes the model fit; `verified` says it was solved with it. `patch` is machine-readable."""

    change: str
    kind: str
    verified: bool
    cost_bytes: int | None = None
    patch: Patch = Field(default_factory=dict)


class Explanation(Document):
    """Why there is no plan, and what would help, cheapest first."""

    reasons: tuple[str, ...]
    fixes: tuple[Fix, ...] = ()
    tables: tuple[Name, ...] | None = None
    """Which tables to look at first: those that have no place on their own, else the largest. Absent where none is to blame."""


class StoppedBy(StrEnum):
    """Why a search went no further."""

    EXACT = "exact"
    """Every solution was searched or ruled out."""
    GAP = "gap"
    """Nothing that is left can be better by more than the gap asked for."""
    FLOOR = "floor"
    """The devices' times are settled; what lies between the plan and the bound is of launches, input or the network."""
    TARGET = "target"
    """A plan is as fast as was asked for, or none is: the best was not looked for."""
    WORK = "limit"
    """The counted work is spent."""
    TIME = "time"
    """The time is over: another run may get further, or less far."""
    PROOF = "proof"
    """There is no plan."""
    CANCELLED = "cancelled"
    IMPORTED = "imported"
    """The plan was made elsewhere: nothing was searched for."""


class SolverRecord(Document):
    """How the answer was found. Only `seconds` and `*_seconds` differ between two equal runs."""

    seconds: float
    seed: int
    limit: float
    """The limit of the question that ended the solve; where none did and both are set, that of work."""
    limit_kind: LimitKind
    stopped_by: StoppedBy
    bound: str
    """Which bound proves `lower_bound_us`."""
    warm_start: str | None = None
    """Digest of the plan that the search began with, where it was given one: the same question may have another answer without."""
    moves: int = 0
    version: str


class Plan(Document):
    """The answer to a question. Where there is no placement, its figures are absent and its lists empty."""

    schema_version: Literal[2] = 2
    model: ModelReference
    host: ModelReference
    cost_model: CostModelReference
    status: PlanStatus
    gap: float | None = None
    """(step_time_us - lower_bound_us) / step_time_us; of a plan with a start, `move_cost_us` is added to the step time."""
    placement_gap: Annotated[float, Field(ge=0, le=1)] | None = None
    """The same of what a placement decides: both times less the step without tables. Plans of earlier versions lack it."""
    step_time_us: float | None = None
    lower_bound_us: float | None = None
    throughput_samples_per_s: float | None = None
    imbalance: float | None = None
    moved_bytes: Annotated[int, Field(ge=0)] | None = None
    """Bytes of weights and optimizer state that the start of the question has elsewhere. A table that is not in the start moves nothing."""
    move_cost_us: float | None = None
    """`moved_bytes` at the question's price."""
    ranks: tuple[RankLoad, ...] = ()
    nodes: tuple[NodeLoad, ...] = ()
    tables: tuple[TablePlacement, ...] = ()
    hot_ranks: tuple[HotRank, ...] | None = None
    """For each such table, in the order of `tables`; absent where there is none."""
    explanation: Explanation | None = None
    diagnosis: Diagnosis | None = None
    """Why the plan is no faster, where that was asked for."""
    extrapolated: tuple[str, ...] = ()
    """Where predicted times rest on more than was measured; one line each."""
    solver: SolverRecord
    fewest: FewestDevices | None = None
    proof: Proof | None = None
    """From which anyone can see that no placement is quicker, or that there is none."""
    question: Question

    @model_validator(mode="before")
    @classmethod
    def _of_version_1(cls, data: Any) -> Any:
        return plan_of_version_1(data) if isinstance(data, dict) and data.get("schema_version") == 1 else data

    @property
    def sized_question(self) -> Question:
        """The question with the nodes and ranks that the plan is for, where it was to find the fewest."""
        size = None if self.fewest is None else self.fewest.size
        return self.question if size is None else sized(self.question, size)

    @property
    def num_trainers(self) -> int:
        return sum(not rank.is_server for rank in self.ranks)

    def topology(self) -> Topology:
        """The ranks that the plan is for, remote servers among them when it lists any. Raises InvalidDocument."""
        return self.sized_question.topology(with_servers=any(rank.is_server for rank in self.ranks))

    @property
    def has_placement(self) -> bool:
        return self.status in (PlanStatus.OPTIMAL, PlanStatus.FEASIBLE)
