"""The CostModel that a set of samples supports, with the error of every part on points it did not see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from placement.cost_model import CollectiveCost, CostModel, CostSource, DenseCost, KernelCost, LookupCost, Residual, datasheet_cost_model
from placement.errors import ToolError
from placement.host import HostSpec
from placement.memory import row_bytes
from placement.model import ComputeKernel, DataType, ModelSpec, Optimizer, ShardingType
from placement.stages import rank_stages_us, shard_stages_us
from placement.topology import Topology, build_topology
from placement.workload import Objective, model_loads, shard_workload
from profiler.fit import LookupFit, LookupPoints, fit_collective, fit_dense, fit_lookup, held_out, residual
from profiler.points import Design, Kind, LookupPoint, Operation, Sample
from profiler.samples import Timed, repeat_noise, together

_FEWEST_LOOKUPS, _FEWEST_OTHERS = 10, 3
_BOTH_WAYS = (Operation.OUTPUT_ALL_TO_ALL, Operation.REDUCE_SCATTER)

Array = NDArray[np.float64]
TimedPoints = dict[tuple[Kind, int], Timed]


def fit_cost_model(design: Design, samples: list[list[Sample]], host: HostSpec) -> CostModel:
    """Fit all parts. Raises ToolError when too few points were measured for one of them."""
    timed = together(samples)
    device, ranks = host.node.devices[0].kind, len(samples)
    kernels, residuals = _kernels(design, timed, device)
    dense, dense_residual = _dense(design, timed, device)
    collectives, collective_residuals = _collectives(design, timed, host, ranks)
    model = CostModel(
        source=CostSource.MEASURED,
        host_name=host.name,
        fingerprint=host.fingerprint,
        ranks=ranks,
        step_overhead_us=0.0,
        kernels=tuple(kernels),
        dense=(dense,),
        residuals=(*residuals, dense_residual, *collective_residuals),
        noise=repeat_noise(samples),
        **collectives,
    )
    overhead = timed[Kind.STEP, 0].forward_us - predicted_step_us(model, design.step, build_topology(host, 1, ranks, with_servers=False))
    return model.model_copy(update={"step_overhead_us": max(0.0, overhead)})


@dataclass(frozen=True)
class _Lookups:
    """The measured lookup points of one kernel: those the fit is made of, and variants that only are compared with it."""

    points: Sequence[LookupPoint]
    timed: Sequence[Timed]

    def direction(self, name: str, kernel: ComputeKernel) -> LookupPoints:
        times = np.array([timed.forward_us if name == "forward" else timed.backward_us for timed in self.timed])
        return LookupPoints([timed.tables for timed in self.timed], times, kernel is ComputeKernel.DENSE and name == "backward")


def _kernels(design: Design, timed: TimedPoints, device: str) -> tuple[list[KernelCost], list[Residual]]:
    costs, residuals = [], []
    for kernel in dict.fromkeys(point.kernel for point in design.lookups):
        fits: dict[str, LookupCost] = {}
        standard = _select(design, timed, kernel, Optimizer.ROWWISE_ADAGRAD, DataType.FP32)
        _refuse_too_few(f"{kernel} lookups", len(standard.points), _FEWEST_LOOKUPS)
        for name in ("forward", "backward"):
            points = standard.direction(name, kernel)
            fit = fit_lookup(points)
            fits[name] = fit.cost
            predicted = held_out(len(points.times_us), design.seed, partial(_predict_unseen, points))
            residuals.append(residual(f"{kernel} {name}", predicted, points.times_us))
            residuals += _variants(design, timed, kernel, name, fit)
        costs.append(KernelCost(device=device, kernel=kernel, forward=fits["forward"], backward=fits["backward"]))
    return costs, residuals


def _select(design: Design, timed: TimedPoints, kernel: ComputeKernel, optimizer: Optimizer, data_type: DataType) -> _Lookups:
    wanted = (kernel, optimizer, data_type)
    found = [
        (point, timed[Kind.LOOKUP, index])
        for index, point in enumerate(design.lookups)
        if (Kind.LOOKUP, index) in timed and (point.kernel, point.optimizer, point.data_type) == wanted
    ]
    return _Lookups([point for point, _ in found], [one for _, one in found])


def _predict_unseen(points: LookupPoints, seen: NDArray[np.intp], unseen: NDArray[np.intp]) -> Array:
    return fit_lookup(_part(points, seen)).predict(_part(points, unseen))


def _part(points: LookupPoints, chosen: NDArray[np.intp]) -> LookupPoints:
    return LookupPoints([points.groups[index] for index in chosen], points.times_us[chosen], points.with_gradient)


def _variants(design: Design, timed: TimedPoints, kernel: ComputeKernel, name: str, fit: LookupFit) -> list[Residual]:
    """How far the fit, made of row-wise Adagrad in fp32, is from other optimizers and data types."""
    variants = dict.fromkeys((point.optimizer, point.data_type) for point in design.lookups)
    residuals = []
    for optimizer, data_type in variants:
        if (optimizer, data_type) == (Optimizer.ROWWISE_ADAGRAD, DataType.FP32):
            continue
        points = _select(design, timed, kernel, optimizer, data_type).direction(name, kernel)
        if len(points.times_us):
            residuals.append(residual(f"{kernel} {name} with {optimizer} in {data_type}", fit.predict(points), points.times_us))
    return residuals


def _dense(design: Design, timed: TimedPoints, device: str) -> tuple[DenseCost, Residual]:
    found = [(point.flops, timed[Kind.DENSE, index]) for index, point in enumerate(design.dense) if (Kind.DENSE, index) in timed]
    _refuse_too_few("dense layers", len(found), _FEWEST_OTHERS)
    flops = np.array([flop for flop, _ in found], dtype=np.float64)
    times = np.array([one.forward_us + one.backward_us for _, one in found])

    def predict(seen: NDArray[np.intp], unseen: NDArray[np.intp]) -> Array:
        cost = fit_dense(device, flops[seen], times[seen])
        return cost.fixed_us + flops[unseen] * cost.per_flop_us

    return fit_dense(device, flops, times), residual("dense layers", held_out(len(times), design.seed, predict), times)


def _collectives(design: Design, timed: TimedPoints, host: HostSpec, ranks: int) -> tuple[dict[str, CollectiveCost], list[Residual]]:
    """Ids and pooled vectors share `all_to_all`; a reduce-scatter and the all-gather of its backward share `reduce_scatter`."""
    parts = {
        "all_to_all": (Operation.INPUT_ALL_TO_ALL, Operation.OUTPUT_ALL_TO_ALL),
        "reduce_scatter": (Operation.REDUCE_SCATTER,),
        "all_reduce": (Operation.ALL_REDUCE,),
    }
    if ranks == 1:
        # Nothing to measure, and a job of one rank pays nothing; should more ranks be priced with this model, the host's figures hold.
        return dict.fromkeys(parts, datasheet_cost_model(host).all_to_all), []
    # Not measured on one node: the host's own figure for its network.
    network_us = 1e6 * ranks / host.node.network
    costs, residuals = {}, []
    for name, operations in parts.items():
        sent, times = _collective_points(design, timed, operations)
        _refuse_too_few(name, len(times), _FEWEST_OTHERS)

        def predict(seen: NDArray[np.intp], unseen: NDArray[np.intp], sent: Array = sent, times: Array = times) -> Array:
            cost = fit_collective(sent[seen], times[seen], 0.0)
            return np.asarray(cost.fixed_us + cost.time_us(sent[unseen], 0.0))

        costs[name] = fit_collective(sent, times, network_us)
        residuals.append(residual(name, held_out(len(times), design.seed, predict), times))
    return costs, residuals


def _collective_points(design: Design, timed: TimedPoints, operations: tuple[Operation, ...]) -> tuple[Array, Array]:
    sent, times = [], []
    for index, point in enumerate(design.collectives):
        if point.operation not in operations or (one := timed.get((Kind.COLLECTIVE, index))) is None:
            continue
        ways = [one.forward_us, one.backward_us] if point.operation in _BOTH_WAYS else [one.forward_us + one.backward_us]
        sent += [float(point.sent_bytes)] * len(ways)
        times += ways
    return np.array(sent), np.array(times)


def predicted_step_us(cost: CostModel, model: ModelSpec, topology: Topology) -> float:
    """What the step-time model says of `model` with its tables dealt to the ranks in turn, all of them alike."""
    total_us = sum(rank_stages_us(cost, model, topology).values())
    ranks = len(topology.trainers)
    for table, load in zip(model.tables[::ranks], model_loads(model, topology, Objective.MEAN)[::ranks], strict=True):
        work = shard_workload(load, ShardingType.TABLE_WISE, 1.0, table.embedding_dim, topology, on_server=False)
        bytes_of_row = row_bytes(table.data_type, table.embedding_dim)
        shard = shard_stages_us(
            cost,
            topology.trainers[0].device,
            ComputeKernel.FUSED,
            ShardingType.TABLE_WISE,
            work,
            row_bytes=bytes_of_row,
            columns=table.embedding_dim,
            weight_bytes=bytes_of_row * table.num_embeddings,
        )
        total_us += float(sum(shard.values()))
    return total_us


def _refuse_too_few(what: str, points: int, fewest: int) -> None:
    if points < fewest:
        raise ToolError(f"only {points} points of {what} were measured, a fit needs {fewest}")
