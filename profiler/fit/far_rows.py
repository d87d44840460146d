"""Rows in system memory that a GPU looks up over its link, alone or with a cache in its own memory: what follows from what was measured.

Lookups of rows there are measured with row-wise Adagrad. Element-wise state lies beside the rows and crosses the link as they do. With a
cache, the forward finds out what is not in it, by sorting ids as the backward does, and fetches that; rows are then updated where `fused`
updates its own, and the state where it is (FBGEMM's split_table_batched_embeddings_ops_training.py, `_prefetch`, `construct_split_state`).
"""

from __future__ import annotations

from collections.abc import Sequence

from emplace.placement.cost_model import LINE_BYTES, KernelCost, LookupCost, OtherBackward
from emplace.placement.model import ComputeKernel, Optimizer

_STATES = {optimizer: optimizer.values_per_weight for optimizer in Optimizer if optimizer.values_per_weight}


def with_far_rows(costs: Sequence[KernelCost]) -> list[KernelCost]:
    """The same costs, those of `fused_uvm` with a backward for every optimizer, and those of `fused_uvm_caching` where both of its
    kernels are known."""
    by_kernel = {cost.kernel: cost for cost in costs}
    fused, uvm = by_kernel.get(ComputeKernel.FUSED), by_kernel.get(ComputeKernel.FUSED_UVM)
    if fused is None or uvm is None:
        return list(costs)
    by_kernel[ComputeKernel.FUSED_UVM] = _with_states(uvm)
    return [*by_kernel.values(), _with_cache(fused, uvm)]


def _with_states(uvm: KernelCost) -> KernelCost:
    others = [
        OtherBackward(optimizer=optimizer, backward=uvm.backward.model_copy(update=_rows_over_the_link(uvm, 1 + states)))
        for optimizer, states in _STATES.items()
    ]
    return uvm.model_copy(update={"other_backwards": (*uvm.other_backwards, *others)})


def _with_cache(fused: KernelCost, uvm: KernelCost) -> KernelCost:
    """What a cache takes beyond lookups that `fused` answers."""
    read, sort = uvm.forward, fused.backward
    found = LookupCost(
        per_lookup_us=sort.per_lookup_us,
        per_row_digit_us=sort.per_row_digit_us,
        per_unique_line_us=read.per_unique_line_us + LINE_BYTES * (read.per_lookup_byte_us + read.per_overflow_byte_us),
    )
    others = [
        OtherBackward(optimizer=optimizer, backward=LookupCost(**_rows_over_the_link(uvm, states))) for optimizer, states in _STATES.items()
    ]
    return KernelCost(
        device=fused.device, kernel=ComputeKernel.FUSED_UVM_CACHING, forward=found, backward=LookupCost(), other_backwards=tuple(others)
    )


def _rows_over_the_link(uvm: KernelCost, times: float) -> dict[str, float]:
    """What the backward's rows take, so many times."""
    return {part: times * getattr(uvm.backward, part) for part in ("per_unique_row_us", "per_unique_line_us")}
