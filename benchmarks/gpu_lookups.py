"""FBGEMM's lookups on a GPU that a profile has no points for: with a cache, at several load factors, and in tables of ever more rows.

    python -m benchmarks.gpu_lookups cached|rows > LOOKUPS.jsonl

One JSON line a case: medians in microseconds. With a cache the time that passes counts, for its forward waits for what it looks up; by rows
the time of the device.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from fbgemm_gpu.split_table_batched_embeddings_ops_common import BoundsCheckMode, EmbeddingLocation
from fbgemm_gpu.split_table_batched_embeddings_ops_training import ComputeDevice, SplitTableBatchedEmbeddingBagsCodegen

from emplace.placement.access import ZipfAccess, access_distribution
from emplace.placement.model import Optimizer
from emplace.profiler.measure.lookup import touch
from emplace.runtime.clock import passed_us, worked_us
from emplace.runtime.dlrm import FUSED_OPTIMIZERS

CUDA = torch.device("cuda")
BATCHES, REPETITIONS = 8, 12
SPREAD = 2_654_435_769
"""Popular rows lie all over the table, as hashing would put them."""
PLACES = {
    "device": EmbeddingLocation.DEVICE,
    "managed": EmbeddingLocation.MANAGED,
    "managed_caching": EmbeddingLocation.MANAGED_CACHING,
}
OPTIMIZERS = (Optimizer.ROWWISE_ADAGRAD, Optimizer.ADAGRAD, Optimizer.SGD)


@dataclass(frozen=True)
class Case:
    """One table, and how it is looked up."""

    rows: int
    columns: int
    bags: int
    ids: int
    zipf: float
    where: str = "device"
    load_factor: float = 0.2
    optimizer: Optimizer = Optimizer.ROWWISE_ADAGRAD


def cached() -> Iterator[Case]:
    for zipf, (bags, ids) in itertools.product((1.05, 0.0), ((65_536, 8), (262_144, 1))):
        of = Case(2_000_000, 128, bags, ids, zipf)
        yield from (replace(of, where=where, optimizer=optimizer) for where in ("device", "managed") for optimizer in OPTIMIZERS)
        yield from (replace(of, where="managed_caching", load_factor=factor) for factor in (0.05, 0.2, 0.5, 1.0))
        yield from (replace(of, where="managed_caching", optimizer=optimizer) for optimizer in OPTIMIZERS[1:])


def by_rows() -> Iterator[Case]:
    for rows, columns in itertools.product((10**5, 10**6, 10**7, 5 * 10**7, 2 * 10**8), (128, 32)):
        yield Case(rows, columns, 65_536, 20, 0.0)


def timed(case: Case, *, on_device: bool) -> dict[str, Any]:
    """The case's line."""
    module, batches = _module(case), _batches(case)
    gradient, clock = torch.full((case.bags, case.columns), 1e-3, device=CUDA), worked_us if on_device else passed_us
    times: list[tuple[float, float]] = []
    for repetition in range(BATCHES + REPETITIONS):
        ids, offsets, _ = batches[repetition % BATCHES]
        pooled: list[torch.Tensor] = []
        forward_us = clock(lambda ids=ids, offsets=offsets, pooled=pooled: pooled.append(module(ids, offsets)), CUDA)  # type: ignore[misc]
        backward_us = clock(lambda pooled=pooled: torch.autograd.backward(pooled[0], gradient), CUDA)  # type: ignore[misc]
        times.append((forward_us, backward_us))
    forward_us, backward_us = np.median(times[BATCHES:], axis=0).tolist()
    unique = float(np.mean([each for *_, each in batches]))
    return vars(case) | {"unique": unique, "forward_us": forward_us, "backward_us": backward_us}


def _module(case: Case) -> Any:
    has_cache = case.where == "managed_caching"
    module = SplitTableBatchedEmbeddingBagsCodegen(
        [(case.rows, case.columns, PLACES[case.where], ComputeDevice.CUDA)],
        optimizer=FUSED_OPTIMIZERS[case.optimizer],
        learning_rate=0.01,
        bounds_check_mode=BoundsCheckMode.FATAL,
        device=CUDA,
        **({"cache_load_factor": case.load_factor} if has_cache else {}),
    )
    touch(module)
    return module


def _batches(case: Case) -> list[tuple[torch.Tensor, torch.Tensor, int]]:
    """(ids, offsets, different rows) of each."""
    rng, offsets = np.random.default_rng(1), torch.arange(0, case.bags * case.ids + 1, case.ids, device=CUDA)
    access = access_distribution(ZipfAccess(zipf=case.zipf) if case.zipf else "uniform", case.rows)
    drawn = [access.sample(rng, case.bags * case.ids) * np.int64(SPREAD) % case.rows for _ in range(BATCHES)]
    return [(torch.from_numpy(ids).to(CUDA), offsets, len(np.unique(ids))) for ids in drawn]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("cached", "rows"))
    asked = parser.parse_args()
    for case in by_rows() if asked.what == "rows" else cached():
        print(json.dumps(timed(case, on_device=asked.what == "rows")), flush=True)


if __name__ == "__main__":
    main()
