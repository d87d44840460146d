"""The collectives of a DistributedModelParallel step, through the modules TorchRec itself uses for them."""

from __future__ import annotations

import torch
import torch.distributed as dist
from fbgemm_gpu.permute_pooled_embedding_modules_split import PermutePooledEmbeddingsSplit
from torchrec.distributed.dist_data import KJTAllToAll, PooledEmbeddingsAllToAll, PooledEmbeddingsReduceScatter
from torchrec.distributed.fbgemm_qcomm_codec import CommType, QCommsConfig, get_qcomm_codecs
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from emplace.placement.model import Optimizer
from emplace.placement.workload import OUTPUT_BYTES
from emplace.profiler.design.point_models import (
    FEATURES_OF_A_RANK,
    PIECES,
    REPLICA_COLUMNS,
    exchanged_examples,
    permuted_examples,
    replica_rows,
)
from emplace.profiler.design.points import CollectivePoint, Operation
from emplace.profiler.measure.exercise import Exercise
from emplace.runtime.dlrm import LEARNING_RATE, dense_optimizer

_WIDTH = 128
_BUCKET_BYTES = 25 * 2**20
"""DistributedDataParallel's default bucket (bucket_cap_mb)."""


def collective_exercise(point: CollectivePoint, device: torch.device) -> Exercise:
    """The exercise of a point on the default process group, which must have at least two ranks."""
    ranks = dist.get_world_size()
    match point.operation:
        case Operation.INPUT_ALL_TO_ALL:
            assert point.ids_per_bag is not None
            return InputExercise(exchanged_examples(point.sent_bytes, point.ids_per_bag, ranks), point.ids_per_bag, ranks, device)
        case Operation.OUTPUT_ALL_TO_ALL:
            split = PooledEmbeddingsAllToAll(dist.group.WORLD, dim_sum_per_rank=[_WIDTH] * ranks, device=device)
            # Each rank holds _WIDTH columns for every rank's examples and sends the others theirs.
            examples = max(1, point.sent_bytes // ((ranks - 1) * _WIDTH * OUTPUT_BYTES))
            return OutputExercise(split, examples * ranks, device)
        case Operation.REDUCE_SCATTER:
            examples = max(1, point.sent_bytes // ((ranks - 1) * _WIDTH * OUTPUT_BYTES))
            return OutputExercise(PooledEmbeddingsReduceScatter(dist.group.WORLD), examples * ranks, device)
        case Operation.PERMUTATION:
            assert point.columns is not None
            return PermutationExercise(permuted_examples(point.sent_bytes, point.columns), point.columns, device)
        case Operation.CONVERSION:
            return ConversionExercise(max(1, point.sent_bytes // OUTPUT_BYTES), device)
        case Operation.ALL_REDUCE:
            assert point.optimizer is not None
            return ReplicaExercise(replica_rows(point.sent_bytes, ranks), point.optimizer, device)


class InputExercise:
    """The exchange of ids: sorted by the rank that they go to, sent, and every rank's waited for. There is no backward."""

    def __init__(self, examples: int, ids_per_bag: int, ranks: int, device: torch.device) -> None:
        features = FEATURES_OF_A_RANK * ranks
        bags = examples * features
        self._input = KeyedJaggedTensor.from_lengths_sync(
            keys=[f"f{index}" for index in range(features)],
            values=torch.zeros(bags * ids_per_bag, dtype=torch.int64, device=device),
            lengths=torch.full((bags,), ids_per_bag, dtype=torch.int64, device=device),
        )
        self._order = [index for rank in range(ranks) for index in range(rank, features, ranks)]
        self._order_tensor = torch.tensor(self._order, dtype=torch.int32, device=device)
        self._all_to_all = KJTAllToAll(dist.group.WORLD, [FEATURES_OF_A_RANK] * ranks)

    def prepare(self, repetition: int) -> None:
        del repetition

    def forward(self) -> None:
        self._all_to_all(self._input.permute(self._order, self._order_tensor)).wait().wait()

    def backward(self) -> None:
        return


class OutputExercise:
    """The exchange of pooled vectors: to where their examples live, and their gradients back."""

    def __init__(self, module: torch.nn.Module, rows: int, device: torch.device) -> None:
        self._module = module
        self._input = torch.rand(rows, _WIDTH, device=device, requires_grad=True)
        self._output = torch.empty(0)

    def prepare(self, repetition: int) -> None:
        del repetition
        self._input.grad = None

    def forward(self) -> None:
        self._output = self._module(self._input).wait()
        self._gradient = torch.ones_like(self._output)

    def backward(self) -> None:
        torch.autograd.backward(self._output, self._gradient)


class PermutationExercise:
    """Putting pieces of pooled vectors in order: they arrive rank by rank, and the two pieces of a vector belong side by side."""

    def __init__(self, examples: int, columns: int, device: torch.device) -> None:
        order = [index + half for index in range(PIECES // 2) for half in (0, PIECES // 2)]
        self._module = PermutePooledEmbeddingsSplit([columns] * PIECES, order, device=device)
        self._input = torch.rand(examples, PIECES * columns, device=device, requires_grad=True)
        self._gradient = torch.rand(examples, PIECES * columns, device=device)
        self._output = torch.empty(0)

    def prepare(self, repetition: int) -> None:
        del repetition
        self._input.grad = None

    def forward(self) -> None:
        self._output = self._module(self._input)

    def backward(self) -> None:
        torch.autograd.backward(self._output, self._gradient)


class ConversionExercise:
    """Rounding so many values to what they are sent in, and back, as TorchRec's codecs do."""

    def __init__(self, values: int, device: torch.device) -> None:
        codec = get_qcomm_codecs(QCommsConfig(forward_precision=CommType.FP16)).forward
        self._codec, self._context = codec, codec.create_context()
        self._input, self._output = torch.rand(values, device=device), torch.empty(0)

    def prepare(self, repetition: int) -> None:
        del repetition

    def forward(self) -> None:
        self._output = self._codec.decode(self._codec.encode(self._input, self._context), self._context)

    def backward(self) -> None:
        return


class ReplicaExercise:
    """What the bytes of a replicated parameter cost in a step, its use apart.

    `forward` fills a gradient with zeros and takes it through buckets as DistributedDataParallel does; `backward` is the optimizer.
    """

    def __init__(self, rows: int, optimizer: Optimizer, device: torch.device) -> None:
        self._weight = torch.zeros(rows, REPLICA_COLUMNS, device=device, requires_grad=True)
        self._bucket = torch.zeros(rows * REPLICA_COLUMNS, device=device)
        self._optimizer = dense_optimizer(optimizer, [self._weight], LEARNING_RATE)
        self._pieces = torch.split(self._bucket, _BUCKET_BYTES // OUTPUT_BYTES)

    def prepare(self, repetition: int) -> None:
        del repetition
        self._weight.grad = None

    def forward(self) -> None:
        self._weight.grad = torch.zeros_like(self._weight)
        torch.div(self._weight.grad.view(-1), dist.get_world_size(), out=self._bucket)
        for work in [dist.all_reduce(piece, async_op=True) for piece in self._pieces]:
            work.wait()
        self._weight.grad.view(-1).copy_(self._bucket)

    def backward(self) -> None:
        self._optimizer.step()
