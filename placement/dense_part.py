"""Sizes of the dense part of a model: layer shapes, parameters, flop. The same shapes are what the executor builds."""

from __future__ import annotations

from dataclasses import dataclass

from emplace.placement.model import DcnLayers, Interaction, ModelSpec

PASSES = 3
"""Training takes three times the flop of a forward: the backward takes twice as many."""


@dataclass(frozen=True)
class DensePart:
    """Linear layers as (inputs, outputs), and what the interaction adds."""

    bottom: tuple[tuple[int, int], ...]
    cross: tuple[tuple[int, int], ...]
    top: tuple[tuple[int, int], ...]
    pooled_width: int
    """Width of all pooled embeddings of one example side by side."""
    interaction_flops: int
    """Multiply-adds x 2 of the dot products, per example."""

    @property
    def layers(self) -> tuple[tuple[int, int], ...]:
        """(inputs, outputs) of every linear layer."""
        return self.bottom + self.cross + self.top

    @property
    def parameters(self) -> int:
        """Weights and biases of all layers."""
        return sum(map(layer_parameters, self.layers))

    @property
    def linear_flops(self) -> int:
        """Floating-point operations of the linear layers' forward, per example."""
        return sum(2 * inputs * outputs for inputs, outputs in self.layers)

    @property
    def forward_flops(self) -> int:
        """Floating-point operations of the whole forward, per example."""
        return self.linear_flops + self.interaction_flops

    @property
    def training_flops(self) -> int:
        """Floating-point operations of forward and backward, per example."""
        return PASSES * self.forward_flops

    @property
    def output_width(self) -> int:
        """Values that all linear layers put out, per example."""
        return sum(outputs for _, outputs in self.layers)

    @property
    def activation_width(self) -> int:
        """Values kept per example for the backward pass."""
        return self.pooled_width + self.output_width + (self.top[0][0] if self.top else 0)


def layer_parameters(shape: tuple[int, int]) -> int:
    """Weights and biases of a linear layer of this shape (inputs, outputs)."""
    inputs, outputs = shape
    return inputs * outputs + outputs


def dense_part(model: ModelSpec) -> DensePart:
    """The dense layers of a DLRM: bottom MLP, interaction, top MLP (Naumov et al., arXiv 1906.00091)."""
    bottom = _chain(model.dense_features, model.bottom_mlp) if model.dense_features else ()
    bottom_width = bottom[-1][1] if bottom else model.dense_features
    pooled_width = sum(table.embedding_dim * len(table.features) for table in model.tables)
    width = bottom_width + pooled_width
    cross: tuple[tuple[int, int], ...] = ()
    interaction_flops = 0
    if model.interaction is Interaction.DCN:
        dcn = model.dcn or DcnLayers()
        cross = ((width, dcn.low_rank_dim), (dcn.low_rank_dim, width)) * dcn.num_layers
    elif model.interaction is Interaction.DOT:
        vectors = model.num_features + (1 if bottom_width else 0)
        interaction_flops = 2 * vectors * vectors * model.tables[0].embedding_dim
        width = bottom_width + vectors * (vectors - 1) // 2
    return DensePart(bottom, cross, _chain(width, model.top_mlp), pooled_width, interaction_flops)


def _chain(width: int, widths: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    return tuple(zip((width, *widths[:-1]), widths, strict=True)) if widths else ()
