"""The layers of a live module beside its sharded tables: parameters, floating-point operations, and what a forward keeps.

Tables are never looked up: while a sample batch goes through, each sharded module puts out zeros of the right shape. So tables may be
on the meta device, and so may the whole model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.parameter import is_lazy
from torch.utils.flop_counter import FlopCounterMode
from torchrec.modules.embedding_modules import get_embedding_names_by_table
from torchrec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor, KeyedTensor

from emplace.placement.errors import ToolError
from emplace.torchrec.tables import is_sequence, table_configs


@dataclass(frozen=True)
class DenseMeasure:
    """What is not sharded of a module."""

    parameters: int
    flops_per_example: float
    """Floating-point operations of a forward."""
    measured: bool
    """Whether a batch went through the module; else flops are those of its nn.Linear layers, each used once an example."""


@dataclass(frozen=True)
class Forward:
    """What one forward of a batch did. Bytes are those of different storages that it kept for the backward pass, parameters apart."""

    examples: int
    flops: float
    kept_bytes: int
    largest_kept_bytes: int


def dense_parameters(module: nn.Module, sharded: Iterable[nn.Module]) -> list[nn.Parameter]:
    """All that are in no sharded module. Raises ToolError where a lazy layer does not know its shape yet."""
    inside = {id(parameter) for table in sharded for parameter in table.parameters()}
    outside = {name: parameter for name, parameter in module.named_parameters() if id(parameter) not in inside}
    if lazy := [name for name, parameter in outside.items() if is_lazy(parameter)]:
        raise ToolError(
            f"the shapes of {', '.join(lazy)} are not known yet: run a batch through the module first, or give layers their shapes"
        )
    return list(outside.values())


def dense_layers(module: nn.Module, sharded: Sequence[nn.Module], sample: Any = None) -> DenseMeasure:
    """Parameters and flops: of a forward of `sample` where there is one, else from the shapes. Raises ToolError as `forward` does."""
    parameters = sum(parameter.numel() for parameter in dense_parameters(module, sharded))
    if sample is not None:
        ran = forward(module, sharded, sample)
        return DenseMeasure(parameters, ran.flops / ran.examples, measured=True)
    inside = {id(part) for table in sharded for part in table.modules()}
    linear = [part for part in module.modules() if isinstance(part, nn.Linear) and id(part) not in inside]
    return DenseMeasure(parameters, float(sum(2 * part.in_features * part.out_features for part in linear)), measured=False)


def forward(module: nn.Module, sharded: Sequence[nn.Module], sample: Any) -> Forward:
    """One forward of a batch, as the module takes it; a tuple is its arguments. Raises ToolError where the forward fails."""
    parameters = dense_parameters(module, sharded)
    device = parameters[0].device if parameters else torch.device("cpu")
    arguments = tuple(_moved(argument, device) for argument in (sample if isinstance(sample, tuple) else (sample,)))
    known = {parameter.untyped_storage()._cdata for parameter in parameters}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in known:
            kept[storage._cdata] = storage.nbytes()
        return tensor

    examples: list[int] = []
    with _zeros_for_lookups(sharded, examples), FlopCounterMode(display=False) as counter, saved_tensors_hooks(keep, lambda tensor: tensor):
        try:
            output = module(*arguments)
        except Exception as error:
            what = str(error) or type(error).__name__
            raise ToolError(f"the module's forward failed on the sample batch, pass it as the module takes it: {what}") from error
    del output
    if not examples or not examples[0]:
        raise ToolError("the forward of the sample batch reached no sharded module, or the batch is empty: it must look up tables")
    return Forward(examples[0], float(counter.get_total_flops()), sum(kept.values()), max(kept.values(), default=0))


@contextmanager
def _zeros_for_lookups(sharded: Sequence[Any], examples: list[int]) -> Iterator[None]:
    """While it lasts, sharded modules put out zeros, and `examples` gets the number of examples of each call."""
    for module in sharded:
        module.forward = partial(_zeros, module, examples)
    try:
        yield
    finally:
        for module in sharded:
            del module.forward


def _zeros(module: Any, examples: list[int], features: KeyedJaggedTensor, *_: Any) -> KeyedTensor | dict[str, JaggedTensor]:
    configs = table_configs(module)
    names = get_embedding_names_by_table(configs)
    if is_sequence(module):
        examples.append(features.stride())
        return dict(_zero_sequences(configs, names, features.to_dict()))
    widths = [config.embedding_dim for config, own in zip(configs, names, strict=True) for _ in own]
    examples.append(features.stride())
    values = torch.zeros(features.stride(), sum(widths), device=features.device(), requires_grad=True)
    return KeyedTensor(keys=[name for own in names for name in own], length_per_key=widths, values=values)


def _zero_sequences(
    configs: Sequence[Any], names: Sequence[Sequence[str]], features: Mapping[str, JaggedTensor]
) -> Iterator[tuple[str, JaggedTensor]]:
    for config, own in zip(configs, names, strict=True):
        for name, feature in zip(own, config.feature_names, strict=True):
            ids = features[feature]
            values = torch.zeros(len(ids.values()), config.embedding_dim, device=ids.values().device, requires_grad=True)
            yield name, JaggedTensor(values=values, lengths=ids.lengths())


def _moved(argument: Any, device: torch.device) -> Any:
    return argument.to(device) if hasattr(argument, "to") else argument
