"""Which stages, ranks and tables a plan's step is made of, derived from its question and its tables as the audit does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from emplace.placement.derived_loads import STAGES, DerivedLoads, ShardLoads, StepLength, derive_loads
from emplace.placement.diagnosis import Diagnosis, StageCost, TableCost
from emplace.placement.plan import Plan, Question, TablePlacement
from emplace.placement.stages import Stage, sharding_type_stages_us, slowest_share, stage_lengths_us
from emplace.placement.topology import Topology
from emplace.placement.workload import model_loads

MOST_TABLES = 10
"""That a diagnosis names."""
_TIE = 1e-9
"""Share of a stage by which two ranks may differ and both be its slowest."""


def step_costs(question: Question, placements: tuple[TablePlacement, ...], topology: Topology) -> Diagnosis:
    """What a sound placement's step is made of. The changes are left to who can solve."""
    loads = derive_loads(question, placements, topology)
    stages = tuple(_stage_costs(question, topology, loads))
    # Rounded, so that tables that cost the same stand in the same order on every machine.
    tables = sorted(
        _table_costs(question, placements, topology, loads), key=lambda each: (-round(max(each.time_us, each.mean_us), 6), each.name)
    )
    return Diagnosis(constant_us=loads.constant_us, stages=stages, tables=tuple(tables[:MOST_TABLES]))


def diagnosis_flaws(plan: Plan, topology: Topology) -> Iterator[tuple[str, str]]:
    """(JSON pointer into the diagnosis, what is wrong there) of a plan that is sound otherwise."""
    if plan.diagnosis is None:
        return
    expected = step_costs(plan.sized_question, plan.tables, topology)
    for key in ("constant_us", "stages", "tables"):
        said, derived = (getattr(each, key) for each in (plan.diagnosis, expected))
        if not _is_same(_plain(said), _plain(derived)):
            yield f"/{key}", f"is not what follows from the plan's tables: {_plain(derived)}"


def _plain(value: object) -> object:
    return [each.to_data() for each in value] if isinstance(value, tuple) else value


def _is_same(said: object, derived: object) -> bool:
    """But for rounding."""
    if isinstance(derived, float) and isinstance(said, float | int):
        return bool(np.isclose(said, derived, rtol=1e-6, atol=1e-6))
    if isinstance(derived, list) and isinstance(said, list):
        return len(said) == len(derived) and all(map(_is_same, said, derived))
    if isinstance(derived, dict) and isinstance(said, dict):
        return said.keys() == derived.keys() and all(_is_same(said[key], derived[key]) for key in derived)
    return said == derived


def _stage_costs(question: Question, topology: Topology, loads: DerivedLoads) -> Iterator[StageCost]:
    lengths = stage_lengths_us(loads.stages_us, question.cost_model)
    trainers = len(topology.trainers)
    for index, (stage, time_us) in enumerate(zip(STAGES, lengths.tolist(), strict=True)):
        of_ranks = loads.stages_us[: trainers if stage is Stage.DENSE else None, index]
        if time_us > 0:
            yield StageCost(
                stage=stage,
                time_us=time_us,
                share=time_us / loads.step_time_us,
                mean_us=float(of_ranks.mean()),
                slowest_ranks=tuple(np.flatnonzero(_is_slowest(of_ranks)).tolist()),
            )


def _table_costs(
    question: Question, placements: tuple[TablePlacement, ...], topology: Topology, loads: DerivedLoads
) -> Iterator[TableCost]:
    tables = {table.name: table for table in question.model.tables}
    of_table = dict(zip(tables, model_loads(question.model, topology, question.options.objective), strict=True))
    using = Counter(placement.sharding_type for placement in placements)
    weight, length = _weights(question, loads.stages_us), StepLength.of(question, topology, using)
    without_type = {kind: StepLength.of(question, topology, using.keys() - {kind}) for kind, count in using.items() if count == 1}
    for placement in placements:
        parts = ShardLoads.of(question, placement, tables[placement.name], of_table[placement.name], topology)
        own_us, own_arriving = np.zeros_like(loads.stages_us), np.zeros_like(loads.arriving_us)
        parts.add_times(own_us, topology)
        parts.add_arrivals(own_arriving)
        adds, without = (own_us * weight).sum(axis=0), loads.stages_us - own_us
        if placement.sharding_type in without_type:
            fixed = sharding_type_stages_us(question.cost_model, placement.sharding_type, topology)
            without -= [fixed.get(stage, 0.0) for stage in STAGES]
        time_us = float(adds.sum())
        yield TableCost(
            name=placement.name,
            time_us=time_us,
            share=time_us / loads.step_time_us,
            stages_us={stage: each for stage, each in zip(STAGES, adds.tolist(), strict=True) if each > 0},
            mean_us=float(own_us.sum()) / len(topology.ranks),
            saved_us=loads.step_time_us
            - without_type.get(placement.sharding_type, length).time_us(without, loads.arriving_us - own_arriving),
        )


def _is_slowest(loads_us: NDArray[np.float64]) -> NDArray[np.bool_]:
    """[R, ...] whether a rank is among those that need longest."""
    return np.asarray(loads_us >= loads_us.max(axis=0) * (1 - _TIE))


def _weights(question: Question, stages_us: NDArray[np.float64]) -> NDArray[np.float64]:
    """[R, K] by how much a stage gets longer for what a rank needs more in it, the slowest ranks staying so. They add up to one."""
    slowest, ranks = _is_slowest(stages_us), len(stages_us)
    share = slowest_share(question.cost_model, ranks)
    return np.asarray(share * slowest / slowest.sum(axis=0) + (1 - share) / ranks)
