"""Emplace's bytes and times in TorchRec's own planner: shard estimators for its EmbeddingEnumerator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torchrec.distributed.planner.types import ParameterConstraints, Perf, ShardEstimator, ShardingOption, Storage, Topology

from emplace.executor.imported import DEFAULT_LOAD_FACTOR
from emplace.executor.live_names import long_name, spelt
from emplace.face import read_host
from emplace.placement.choice import kernel_refusal, priced_as
from emplace.placement.cost_model import CostModel
from emplace.placement.derived_loads import STAGES, ShardLoads
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.host import HostSpec
from emplace.placement.model import ComputeKernel, ModelSpec, ShardingType, Table
from emplace.placement.plan import PlanOptions, Question, Shard, TablePlacement
from emplace.placement.reading import from_data
from emplace.placement.stages import Stage
from emplace.placement.workload import model_loads
from emplace.planning import build_question
from emplace.torchrec.hosts import check_topology, host_of, job_options

_US_PER_MS = 1000
_SOURCE = "sharding option"


class _Estimator(ShardEstimator):  # type: ignore[misc]
    """Raises InvalidDocument for a topology or a cost model that don't fit the host, and naming options that Emplace can't price."""

    def __init__(
        self,
        topology: Topology,
        constraints: Mapping[str, ParameterConstraints] | None = None,
        *,
        model: ModelSpec,
        host: HostSpec | Mapping[str, Any] | str | Path | None = None,
        cost_model: CostModel | None = None,
    ) -> None:
        check_topology(topology)
        if constraints:
            rule = "are in the model that describe(..., constraints=...) gives: leave them out here, and pass them to the enumerator"
            raise InvalidDocument("arguments", [BrokenRule("/constraints", "", rule)])
        named = host_of(topology, is_reserved=True) if host is None else read_host(host)
        options = from_data(job_options(topology), PlanOptions, source="topology")
        self._question: Question = build_question(model, named, options, cost_model)
        self._topology = self._question.topology(with_servers=False)
        loads = model_loads(model, self._topology, options.objective)
        self._tables = {table.name: (table, load) for table, load in zip(model.tables, loads, strict=True)}

    def _loads(self, option: ShardingOption) -> ShardLoads:
        """What each shard of the option takes. On which rank it is does not matter: all have the same device."""
        model = self._question.model
        name = next((each for each in (long_name(option.path, option.name), spelt(option.name)) if each in self._tables), None)
        if name is None:
            rule = f"is no table of the model {model.name}: describe the module that is planned, with the same sharders"
            raise InvalidDocument(_SOURCE, [BrokenRule("", f"{option.path}.{option.name}", rule)])
        if option.batch_size != model.local_batch_size:
            rule = f"must be the model's, {model.local_batch_size}: give describe and the enumerator the same batch_size"
            raise InvalidDocument(_SOURCE, [BrokenRule("/batch_size", str(option.batch_size), rule)])
        table, load = self._tables[name]
        placement = TablePlacement(
            name=name,
            sharding_type=self._known(option, ShardingType, "sharding_type"),
            compute_kernel=self._kernel(option, table),
            cache_load_factor=_load_factor(option),
            shards=tuple(_shards(option, len(self._topology.ranks))),
        )
        return ShardLoads.of(self._question, placement, table, load, self._topology)

    def _kernel(self, option: ShardingOption, table: Table) -> ComputeKernel:
        kernel: ComputeKernel = self._known(option, ComputeKernel, "compute_kernel")
        rank = self._topology.ranks[0]
        refusal = kernel_refusal(kernel, rank, self._question.model.optimizer, table.data_type)
        missing = [part for part in priced_as(kernel) if self._question.cost_model.kernel(rank.device, part) is None]
        if refusal is None and missing:
            refusal = f"the cost model has no {' and no '.join(missing)} kernel for {rank.device}"
        if refusal is not None:
            raise InvalidDocument(
                _SOURCE, [BrokenRule("/compute_kernel", kernel, f"{refusal}; shut it out of {option.name} by constraints")]
            )
        return kernel

    def _known(self, option: ShardingOption, kind: Any, what: str) -> Any:
        value = getattr(option, what)
        if value not in tuple(kind):
            rule = f"Emplace knows {', '.join(kind)}: shut it out of {option.name} by constraints"
            raise InvalidDocument(_SOURCE, [BrokenRule(f"/{what}", str(value), rule)])
        return kind(value)


class EmplacePerfEstimator(_Estimator):
    """Milliseconds of each shard by an Emplace cost model: the given one, else what was measured on the host, else its datasheet.

    `model` is `describe`d from the module, perhaps with what was observed; `host` as for EmplaceShardingPlanner. Exchanges of ids count
    as forward communication, which TorchRec adds up. What does not depend on shards (dense layers, what each sharding type costs once)
    is in no shard.
    """

    def estimate(self, sharding_options: Sequence[ShardingOption], sharder_data_map: Any = None) -> None:  # noqa: ARG002
        for option in sharding_options:
            for shard, stages_us in zip(option.shards, self._loads(option).stages_us.tolist(), strict=True):
                shard.perf = _perf(dict(zip(STAGES, stages_us, strict=True)))


class EmplaceStorageEstimator(_Estimator):
    """Bytes of each shard as Emplace's plans have them: weights, optimizer state, cache, ids and vectors at the fullest moment."""

    def estimate(self, sharding_options: Sequence[ShardingOption], sharder_data_map: Any = None) -> None:  # noqa: ARG002
        for option in sharding_options:
            loads = self._loads(option)
            for shard, hbm, ddr in zip(option.shards, loads.hbm.tolist(), loads.ddr.tolist(), strict=True):
                shard.storage = Storage(hbm=hbm, ddr=ddr)


def _perf(stages_us: Mapping[Stage, float]) -> Perf:
    milliseconds = {stage: time_us / _US_PER_MS for stage, time_us in stages_us.items()}
    return Perf(
        fwd_compute=milliseconds[Stage.LOOKUP_FORWARD],
        fwd_comms=milliseconds[Stage.INPUT_DIST] + milliseconds[Stage.OUTPUT_DIST],
        bwd_compute=milliseconds[Stage.LOOKUP_BACKWARD],
        bwd_comms=milliseconds[Stage.GRADIENT_DIST] + milliseconds[Stage.ALL_REDUCE],
    )


def _load_factor(option: ShardingOption) -> float | None:
    if option.compute_kernel != ComputeKernel.FUSED_UVM_CACHING:
        return None
    return DEFAULT_LOAD_FACTOR if option.cache_load_factor is None else float(option.cache_load_factor)


def _shards(option: ShardingOption, ranks: int) -> Iterable[Shard]:
    for number, shard in enumerate(option.shards):
        (row, column), (rows, columns) = shard.offset, shard.size
        yield Shard(rank=number % ranks, rows=(row, row + rows), columns=(column, column + columns), hbm_bytes=0, ddr_bytes=0)
