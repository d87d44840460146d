"""Draws the built-in models m1, m2 and m3: `python -m emplace.placement.catalog.draw m1` prints the file models/m1.yaml.

Published (Acun et al., HPCA 2021): per model the number of sparse features, the mean hash size and the mean lookups per
table, that hash sizes run from 30 to 20 million, and that feature lengths follow a power law. Drawn here, with a fixed seed,
is what is not published: the single sizes and lengths. Sizes and lengths are drawn apart, because access does not follow size.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from emplace.placement.lengths import PowerLaw, PowerLawLength, length_distribution

_SMALLEST_TABLE, _LARGEST_TABLE = 30, 20_000_000
_DIM = 128
_ALPHA = 2.5
"""Exponent of the spread of lengths from example to example."""
_LONGEST = 20
"""The longest example of a feature, as a multiple of the feature's mean."""
_LONG_FEATURE = 40.0
"""Features whose mean is above this are truncated at `_TRUNCATION` times their mean."""
_TRUNCATION = 8


@dataclass(frozen=True)
class Published:
    """One row of the paper's table."""

    name: str
    tables: int
    dense_features: int
    mean_lookups: int
    mean_hash_size: int
    bottom_mlp: tuple[int, ...]
    top_mlp: tuple[int, ...]
    longest_mean: int
    """Assumed: the mean length of the model's longest feature."""
    seed: int


PUBLISHED = {
    model.name: model
    for model in (
        Published("m1", 30, 800, 28, 5_700_000, (512,), (512, 512, 512), 200, 1),
        Published("m2", 13, 504, 17, 7_300_000, (1024,), (1024, 1024, 512), 100, 2),
        Published("m3", 127, 809, 49, 3_700_000, (512,), (512, 256, 512, 256, 512), 400, 3),
    )
}


def draw_hash_sizes(model: Published) -> list[int]:
    """One per table, from 30 to 20 million, both included, with exactly the published sum."""
    rng = np.random.default_rng([model.seed, 0])
    sizes = np.round(_spread(rng, model.tables, _SMALLEST_TABLE, _LARGEST_TABLE, model.mean_hash_size)).astype(np.int64)
    middle = int(np.argsort(sizes)[model.tables // 2])
    sizes[middle] += model.tables * model.mean_hash_size - int(sizes.sum())
    return [int(size) for size in sizes]


def draw_mean_lengths(model: Published) -> list[float]:
    """One per table, from 1 up, with the published mean."""
    rng = np.random.default_rng([model.seed, 1])
    lengths = np.round(_spread(rng, model.tables, 1.0, float(model.longest_mean), float(model.mean_lookups)), 1)
    middle = int(np.argsort(lengths)[model.tables // 2])
    lengths[middle] += model.tables * model.mean_lookups - float(lengths.sum())
    return [round(float(length), 1) for length in lengths]


def _spread(rng: np.random.Generator, count: int, low: float, high: float, mean: float) -> NDArray[np.float64]:
    """`count` values from `low` to `high`, both included, drawn on a log scale bent so that their mean is `mean`.

    Even on a log scale (exponent 1) is a power law: density proportional to 1 / value. One draw in each of `count` equal
    strata, so that a model of few tables shows the law too.
    """
    draws = np.arange(count) + rng.random(count)
    draws = (draws - draws[0]) / (draws[-1] - draws[0])

    def values(log_exponent: float) -> NDArray[np.float64]:
        return np.asarray(low * (high / low) ** (draws ** np.exp(log_exponent)))

    return rng.permutation(values(_root(lambda log_exponent: float(values(log_exponent).mean()) - mean, -5.0, 5.0)))


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    return float(optimize.brentq(function, low, high, xtol=1e-12))


def length_yaml(mean: float) -> str:
    """A feature's `length` (and `truncate`) whose mean after truncation is `mean`."""
    if mean == 1.0:
        return "length: {fixed: 1}"
    longest = max(10, round(_LONGEST * mean))
    if mean <= _LONG_FEATURE:
        return f"length: {{power_law: {{mean: {mean}, alpha: {_ALPHA}, max: {longest}}}}}"
    truncate = round(_TRUNCATION * mean)

    def error(before: float) -> float:
        law = PowerLaw(mean=before, alpha=_ALPHA, max=longest)
        return length_distribution(PowerLawLength(power_law=law), truncate).mean - mean

    before = round(_root(error, mean, 2 * mean), 9)
    return f"length: {{power_law: {{mean: {before}, alpha: {_ALPHA}, max: {longest}}}}}, truncate: {truncate}"


def draw_yaml(name: str) -> str:
    """The whole file of a built-in model."""
    model = PUBLISHED[name]
    tables = "\n".join(
        f"  - name: t{index:03d}\n"
        f"    num_embeddings: {size}\n"
        f"    embedding_dim: {_DIM}\n"
        f"    features: [{{name: f{index:03d}, {length_yaml(mean)}}}]\n"
        f"    access: {{zipf: 1.05}}"
        for index, (size, mean) in enumerate(zip(draw_hash_sizes(model), draw_mean_lengths(model), strict=True))
    )
    return f"""\
# Drawn by: python -m emplace.placement.catalog.draw {name}
schema_version: 1
name: {name}
description: >-
  Production model {name.upper()} of Acun et al. Published: {model.tables} sparse and {model.dense_features} dense features,
  a mean of {model.mean_lookups} lookups a table, a mean hash size of {model.mean_hash_size / 1e6:g} million in a range from 30 to
  20 million, both MLPs, fp32, batch 1600 (that of the paper's GPU test suite). Assumed: one table for each feature, embedding_dim
  {_DIM} and element-wise Adagrad (they agree with the published sizes of the whole model), interaction cat, access by Zipf's law with
  exponent 1.05, and every single hash size and length, drawn with a fixed seed so that the published means and range hold.
source: "Acun et al., Understanding Training Efficiency of Deep Learning Recommendation Models at Scale, HPCA 2021, doi 10.1109/HPCA51647.2021.00072"
local_batch_size: 1600
dense_features: {model.dense_features}
bottom_mlp: [{", ".join(map(str, model.bottom_mlp))}]
top_mlp: [{", ".join(map(str, model.top_mlp))}]
interaction: cat
optimizer: adagrad
tables:
{tables}
"""


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in PUBLISHED:
        sys.exit(f"usage: python -m emplace.placement.catalog.draw {'|'.join(PUBLISHED)}")
    print(draw_yaml(sys.argv[1]), end="")
