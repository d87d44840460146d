"""EmplaceShardingPlanner: where TorchRec's EmbeddingShardingPlanner stands."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import torch.distributed as dist
from torch import nn
from torchrec.distributed.comm import get_local_size
from torchrec.distributed.planner.constants import BATCH_SIZE
from torchrec.distributed.planner.planners import to_sharding_plan
from torchrec.distributed.planner.stats import EmbeddingStats
from torchrec.distributed.planner.storage_reservations import FixedPercentageStorageReservation
from torchrec.distributed.planner.types import (
    ParameterConstraints,
    PlanDebugStats,
    PlannerError,
    PlannerErrorType,
    ShardingOption,
    Stats,
    StorageReservation,
    Topology,
)
from torchrec.distributed.sharding_plan import get_default_sharders
from torchrec.distributed.types import ShardingPlan, ShardingPlanner
from torchrec.distributed.utils import get_device_type

from emplace.client import Client
from emplace.face import read_host
from emplace.placement.errors import EmplaceError
from emplace.placement.host import HostSpec
from emplace.placement.plan import Plan, PlanOptions
from emplace.placement.reading import from_data
from emplace.planning import answer, build_question
from emplace.torchrec.collective import on_leader, refuse_different, refuse_outsiders
from emplace.torchrec.committed import committed_plan
from emplace.torchrec.describe import Described, describe_module
from emplace.torchrec.errors import no_placement, planner_error
from emplace.torchrec.fbgemm_report import FbgemmReport
from emplace.torchrec.hosts import check_topology, host_of, job_options, reserve_options, with_memory_of
from emplace.torchrec.limits import PlannedJob
from emplace.torchrec.observation import Observation
from emplace.torchrec.sharding_groups import groups_of
from emplace.torchrec.sharding_options import sharding_options
from emplace.torchrec.tables import table_shapes

DEFAULT_LIMIT_S, DEFAULT_LIMIT_S_PER_TABLE = 2.5, 0.01
"""Time of a solve, where neither timeout_seconds nor options limit it: a job waits for its planner."""
_OF_THE_JOB = ("nodes", "ranks", "hbm_reserve", "ddr_reserve", "time_limit")
"""Options of a plan that the planner's other arguments decide."""

Callback = Callable[[list[ShardingOption]], list[ShardingOption]]

logger = logging.getLogger(__name__)


class EmplaceShardingPlanner(ShardingPlanner):  # type: ignore[misc]
    """Plans with Emplace. Arguments up to `plan_loader` are those of EmbeddingShardingPlanner, in its order, and mean the same; parts of
    TorchRec's search (`enumerator`, `proposer`, `partitioner`, `performance_model`, `plan_loader`) must be None.

    - `host`: a host document, a built-in name, a file or `local`, whose memories and rates stand in place of the topology's.
    - `options`: of a plan, such as {"gap": 0.01, "objective": "p95"} (docs/reference/spec.md).
    - `server`: the URL of an Emplace service that makes the plan, in place of this process.
    - `plan_file`: a plan document that is used as long as it is for this model and this job, and refused otherwise.
    - `sample`: a batch as the module takes it, by which the dense part is counted.
    - `observed`: an Observation or an FbgemmReport, whose lengths and accesses stand in place of pooling_factors and uniform access.

    - `sharding_group_size`, `use_inter_host_allreduce`: as given to DMPCollection. The topology is the whole job's; the plan is one
      sharding group's, and `replica_groups` says which ranks hold the same shards.

    Raises PlannerError naming the arguments that it can't honour.
    """

    def __init__(
        self,
        topology: Topology | None = None,
        batch_size: int | None = None,
        enumerator: None = None,
        storage_reservation: StorageReservation | None = None,
        proposer: None = None,
        partitioner: None = None,
        performance_model: None = None,
        stats: Stats | list[Stats] | None = None,
        constraints: Mapping[str, ParameterConstraints] | None = None,
        debug: bool = True,
        callbacks: Sequence[Callback] | None = None,
        timeout_seconds: float | None = None,
        plan_loader: None = None,
        *,
        host: HostSpec | Mapping[str, Any] | str | Path | None = None,
        options: Mapping[str, Any] | None = None,
        server: str | None = None,
        plan_file: str | Path | None = None,
        sample: Any = None,
        observed: Observation | FbgemmReport | None = None,
        sharding_group_size: int | None = None,
        use_inter_host_allreduce: bool = False,
    ) -> None:
        of_its_search = {
            "enumerator": enumerator,
            "proposer": proposer,
            "partitioner": partitioner,
            "performance_model": performance_model,
            "plan_loader": plan_loader,
        }
        _refuse_arguments(of_its_search, options or {}, server, plan_file, timeout_seconds)
        of_the_job = topology or _topology_of_the_process_group()
        self._groups = groups_of(of_the_job, sharding_group_size, contiguous=use_inter_host_allreduce, host=host)
        self._topology = self._groups.topology
        self._batch_size = batch_size or BATCH_SIZE
        self._storage_reservation = storage_reservation
        self._stats = [EmbeddingStats()] if stats is None else stats if isinstance(stats, list) else [stats]
        self._constraints = dict(constraints or {})
        self._debug = debug
        self._callbacks = list(callbacks or ())
        self._timeout_seconds = timeout_seconds
        self._host, self._options = host, dict(options or {})
        self._server, self._plan_file = server, None if plan_file is None else Path(plan_file)
        self._sample, self._observed = sample, observed
        self._selected: list[ShardingOption] = []
        self.last_plan: Plan | None = None
        """The last plan as an Emplace document: `last_plan.model_dump_json(exclude_none=True)` is what `emplace audit`, `diff` and
        `plan_file` read. A plan that was not found is kept too, with its explanation."""

    def plan(self, module: nn.Module, sharders: Sequence[Any]) -> ShardingPlan:
        """A plan for the module's tables. Needs no process group. Raises PlannerError, whose text says why and what would help."""
        try:
            return self._planned(module, sharders)
        except EmplaceError as error:
            raise planner_error(error) from error

    def collective_plan(
        self, module: nn.Module, sharders: Sequence[Any] | None = None, pg: dist.ProcessGroup | None = None
    ) -> ShardingPlan:
        """`plan` on the first rank of the group (by default all ranks); every rank gets its plan, or raises the same PlannerError."""
        group = pg or (dist.group.WORLD if dist.is_initialized() else None)
        if group is None:
            raise PlannerError("there is no process group: call init_process_group first, or plan() on one process", PlannerErrorType.OTHER)
        refuse_outsiders(group)
        given = get_default_sharders() if sharders is None else sharders
        refuse_different(group, table_shapes(module, given))

        def make() -> tuple[ShardingPlan, str]:
            if group.size() != self._groups.world_size:
                text = f"the process group has {group.size()} ranks, the topology {self._groups.world_size}: give it the same world_size"
                raise PlannerError(text, PlannerErrorType.INPUT_VALIDATION)
            plan = self.plan(module, given)
            return plan, "" if self.last_plan is None else self.last_plan.model_dump_json()

        plan, document = on_leader(group, make)
        self.last_plan = Plan.model_validate_json(document)
        return plan

    @property
    def replica_groups(self) -> list[list[int]]:
        """Ranks of the job that hold the same shards: one list for each rank of the plan. Without sharding_group_size, each by itself."""
        return self._groups.replicas

    def get_selected_options(self) -> list[ShardingOption]:
        """The options of the last plan, on the rank that made it."""
        return list(self._selected)

    def get_search_space(self) -> list[ShardingOption] | None:
        """None, by which TorchRec means that a planner does not enumerate its options."""
        return None

    def _planned(self, module: nn.Module, sharders: Sequence[Any]) -> ShardingPlan:
        started = perf_counter()
        check_topology(self._topology)
        job = PlannedJob(self._topology.compute_device, self._batch_size)
        described = describe_module(module, sharders, job, self._constraints, sample=self._sample)
        if self._observed is not None:
            described = replace(described, spec=self._observed.apply(described.spec))
        self._warn_of_unknown(described)
        reservation = self._storage_reservation or FixedPercentageStorageReservation(percentage=0.0)
        self.last_plan = plan = self._found(described, reservation, module, sharders)
        if not plan.has_placement:
            raise no_placement(plan)
        selected = sharding_options(plan, described.tables, sharders, self._topology, self._constraints)
        for callback in self._callbacks:
            selected = callback(selected)
        self._selected = selected
        sharding_plan = to_sharding_plan(selected, self._topology)
        self._report(sharding_plan, reservation, sharders, perf_counter() - started)
        return sharding_plan

    def _found(self, described: Described, reservation: StorageReservation, module: nn.Module, sharders: Sequence[Any]) -> Plan:
        model, topology = described.spec, self._topology
        if self._host is None:
            host = host_of(topology, is_reserved=self._storage_reservation is not None)
        else:
            host = read_host(self._host)
            topology = with_memory_of(topology, host)
        reserved = reservation.reserve(topology, self._batch_size, module, list(sharders), self._constraints or None)
        given = self._options | job_options(topology) | reserve_options(topology, reserved, host, model)
        if self._timeout_seconds is not None:
            given["time_limit"] = float(self._timeout_seconds)
        elif "work_limit" not in given:
            given["time_limit"] = DEFAULT_LIMIT_S + DEFAULT_LIMIT_S_PER_TABLE * len(described.tables)
        options = from_data(given, PlanOptions, source="options")
        if self._plan_file is not None:
            return committed_plan(self._plan_file, model, options.topology(host, with_servers=False))
        if self._server is None:
            return answer(build_question(model, host, options))
        with Client(self._server) as client:
            return client.plan(model, host, **options.to_data())

    def _report(self, sharding_plan: ShardingPlan, reservation: StorageReservation, sharders: Sequence[Any], seconds: float) -> None:
        for stats in self._stats:
            stats.log(
                sharding_plan=sharding_plan,
                topology=self._topology,
                batch_size=self._batch_size,
                storage_reservation=reservation,
                num_proposals=1,
                num_plans=1,
                run_time=seconds,
                best_plan=self._selected,
                constraints=self._constraints or None,
                sharders=list(sharders),
                debug=self._debug,
                debug_stats=PlanDebugStats(planner_type=type(self).__name__, timeout_seconds=self._timeout_seconds),
            )

    def _warn_of_unknown(self, described: Described) -> None:
        unknown = sorted(set(self._constraints) - {table.name for table in described.tables})
        if unknown:
            logger.warning("constraints name tables that no sharded module has: %s", ", ".join(unknown))


def _topology_of_the_process_group() -> Topology:
    if not dist.is_initialized():
        text = "there is neither a topology nor a process group: pass topology=, or call init_process_group first"
        raise PlannerError(text, PlannerErrorType.INPUT_VALIDATION)
    return Topology(world_size=dist.get_world_size(), compute_device=get_device_type(), local_world_size=get_local_size())


def _refuse_arguments(
    of_its_search: Mapping[str, Any], options: Mapping[str, Any], server: str | None, plan_file: Any, timeout_seconds: float | None
) -> None:
    broken = [
        f"{name}: a part of TorchRec's search, which Emplace does not use; leave it out"
        for name, given in of_its_search.items()
        if given is not None
    ]
    broken += [
        f"options: {name} follows from the topology, the reservation or timeout_seconds; leave it out"
        for name in _OF_THE_JOB
        if name in options
    ]
    if timeout_seconds is not None and not timeout_seconds > 0:
        broken.append(f"timeout_seconds: must be above 0, it is {timeout_seconds}; leave it out for the default")
    if server is not None and plan_file is not None:
        broken.append("server, plan_file: a plan comes from one of them; leave one out")
    if broken:
        raise PlannerError(
            "EmplaceShardingPlanner can't honour\n" + "\n".join(f"  - {each}" for each in broken), PlannerErrorType.INPUT_VALIDATION
        )
