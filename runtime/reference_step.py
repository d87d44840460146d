"""The reference step: one training step, always the same, that tells how fast the machine is now.

The profiler times it between everything it measures, the executor before, amid and after training, so that a machine that is slower
than usual is told from prices that are wrong.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from emplace.placement.model import ComputeKernel, Feature, Interaction, ModelSpec, Optimizer, ShardingType, Table
from emplace.placement.plan import Shard, TablePlacement
from emplace.runtime.batches import draw_batch
from emplace.runtime.clock import now_us
from emplace.runtime.sharding_plan import sharding_plan
from emplace.runtime.torchrec_json import MODULE_PATH, parameter_sharding
from emplace.runtime.training import Training

_TABLES_OF_A_RANK, _ROWS, _COLUMNS = 2, 100_000, 64
_BATCHES = 32
"""They take turns, so that no step finds its rows in a cache because the one before had them."""


class ReferenceStep:
    """Every rank builds one at the same time and takes its steps with all others."""

    def __init__(self, seed: int, device: torch.device) -> None:
        rank, ranks = dist.get_rank(), dist.get_world_size()
        spec = reference_model(ranks)
        devices = [f"cuda:{of_rank}" if device.type == "cuda" else "cpu" for of_rank in range(ranks)]
        tables = {
            table.name: parameter_sharding(_placement(table.name, number % ranks), devices) for number, table in enumerate(spec.tables)
        }
        self._training = Training(spec, sharding_plan({MODULE_PATH: tables}), device, trainers=ranks)
        self._batches = [draw_batch(spec, spec.local_batch_size, seed, rank, number) for number in range(_BATCHES)]

    def prepare(self, repetition: int) -> None:
        """Bring the batch of that number to the device."""
        self._batch = self._batches[repetition % len(self._batches)].copy_to(self._training.device)

    def forward(self) -> None:
        """The whole step."""
        self._training.step(self._batch)

    def backward(self) -> None:
        """Nothing: the step has its backward inside."""

    def times_us(self, steps: int) -> list[float]:
        """Microseconds of each of so many steps on this rank, after one that does not count. All ranks start a step together."""
        times = []
        for number in range(steps + 1):
            self.prepare(number)
            dist.barrier()
            start = now_us(self._training.device)
            self.forward()
            times.append(now_us(self._training.device) - start)
        return times[1:]


def reference_model(ranks: int) -> ModelSpec:
    """Takes a few milliseconds; feature lengths vary, so that ranks wait for each other as in training."""
    return ModelSpec(
        schema_version=1,
        name="reference",
        local_batch_size=256,
        dense_features=13,
        bottom_mlp=(256, _COLUMNS),
        top_mlp=(256, 128, 1),
        interaction=Interaction.CAT,
        optimizer=Optimizer.ROWWISE_ADAGRAD,
        tables=tuple(
            Table(
                name=f"t{number}",
                num_embeddings=_ROWS,
                embedding_dim=_COLUMNS,
                features=(Feature(name=f"f{number}", length={"lognormal": {"mean": 8, "sigma": 0.7}}),),
            )
            for number in range(_TABLES_OF_A_RANK * ranks)
        ),
    )


def _placement(name: str, rank: int) -> TablePlacement:
    shard = Shard(rank=rank, rows=(0, _ROWS), columns=(0, _COLUMNS), hbm_bytes=0, ddr_bytes=0)
    return TablePlacement(name=name, sharding_type=ShardingType.TABLE_WISE, compute_kernel=ComputeKernel.FUSED, shards=(shard,))
