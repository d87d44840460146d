"""Small models to train for real on a CPU: skewed sizes and lengths, where placement matters, and some where it can't.

The steps of the first ones are mostly exchanges and dense layers, those of the `lookups-` ones mostly lookups.

Drawn with a fixed seed. Shapes follow the ranges of Acun et al. (HPCA 2021, doi 10.1109/HPCA51647.2021.00072), hash sizes and
batches scaled down so that every model trains on a machine with two cores.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from emplace.placement.model import ModelSpec

SEED = 11


@dataclass(frozen=True)
class Drawn:
    """Tables of one model. Rows and mean lengths are lognormal over tables; sigma 0 makes all tables alike."""

    name: str
    tables: int
    mean_rows: int
    mean_length: float
    rows_sigma: float = 0.0
    length_sigma: float = 0.0
    dims: tuple[int, ...] = (32,)
    skews: tuple[float, ...] = (0.0,)
    """Each table's Zipf exponent is one of them; 0 is uniform."""
    batch: int = 512
    optimizer: str = "rowwise_adagrad"
    top_mlp: tuple[int, ...] = (64, 1)
    giants: dict[int, tuple[int, float]] = field(default_factory=dict)
    """Tables that are given, not drawn: rows and mean length by number."""
    matters: bool = True
    """Whether placement can matter; decided before anything was measured."""


_ANY_SKEW = (0.0, 0.0, 1.05, 1.2)

SUITE = (
    Drawn("equal-tables", 8, 50_000, 8, matters=False),
    Drawn("one-id-each", 16, 20_000, 1, matters=False),
    Drawn("dense-heavy", 4, 10_000, 2, top_mlp=(1024, 1024, 1024, 1), batch=256, matters=False),
    Drawn("skewed-lengths", 16, 50_000, 12, length_sigma=1.2),
    Drawn("skewed-sizes", 16, 100_000, 10, rows_sigma=1.5),
    Drawn("skewed-both", 24, 80_000, 10, rows_sigma=1.5, length_sigma=1.1),
    Drawn("skewed-both-adagrad", 24, 80_000, 10, rows_sigma=1.5, length_sigma=1.1, optimizer="adagrad"),
    Drawn("one-giant", 8, 20_000, 4, giants={0: (1_000_000, 60.0)}),
    Drawn("three-giants", 9, 20_000, 4, giants=dict.fromkeys(range(3), (300000, 40.0))),
    Drawn("mixed-dims", 20, 60_000, 8, rows_sigma=1.0, length_sigma=1.0, dims=(8, 16, 32, 64, 128)),
    Drawn("hot-small-tables", 12, 3_000, 30, length_sigma=0.8, skews=(1.1,)),
    Drawn("zipf-skewed", 20, 100_000, 12, rows_sigma=1.2, length_sigma=1.0, skews=(1.05,)),
    Drawn("many-tables", 64, 10_000, 5, rows_sigma=1.3, length_sigma=1.0, dims=(16,), batch=256),
    Drawn("wide-columns", 6, 40_000, 15, length_sigma=0.8, dims=(256,), batch=256),
    Drawn("lookups-lengths", 12, 300_000, 40, rows_sigma=1.5, length_sigma=1.1),
    Drawn("lookups-skews", 12, 300_000, 40, rows_sigma=1.5, length_sigma=1.1, skews=_ANY_SKEW),
    Drawn("lookups-dims", 16, 100_000, 30, rows_sigma=1.5, length_sigma=1.1, dims=(8, 16, 32, 64, 128)),
    Drawn("lookups-many", 24, 200_000, 25, rows_sigma=1.5, length_sigma=1.1, dims=(64,), skews=_ANY_SKEW),
    Drawn("lookups-giants", 12, 50_000, 10, dims=(64,), giants=dict.fromkeys(range(3), (500_000, 100.0))),
    Drawn("lookups-narrow", 10, 50_000, 4, dims=(16,), giants={0: (500_000, 100.0)}),
)


def suite() -> dict[str, tuple[ModelSpec, bool]]:
    """Each model by name, and whether placement can matter to it."""
    return {drawn.name: (model_of(drawn), drawn.matters) for drawn in SUITE}


def model_of(drawn: Drawn) -> ModelSpec:
    """The same draw gives the same model."""
    rng = np.random.default_rng([SEED, *drawn.name.encode()])
    rows = _lognormal(rng, drawn.tables, drawn.mean_rows, drawn.rows_sigma)
    lengths = _lognormal(rng, drawn.tables, drawn.mean_length, drawn.length_sigma)
    dims = rng.choice(drawn.dims, drawn.tables)
    for number, (giant_rows, giant_length) in drawn.giants.items():
        rows[number], lengths[number] = giant_rows, giant_length
    sizes = zip(rows, lengths, dims, rng.choice(drawn.skews, drawn.tables), strict=True)
    return ModelSpec.model_validate(
        {
            "schema_version": 1,
            "name": drawn.name,
            "local_batch_size": drawn.batch,
            "dense_features": 13,
            "bottom_mlp": [64, 32],
            "top_mlp": list(drawn.top_mlp),
            "interaction": "cat",
            "optimizer": drawn.optimizer,
            "tables": [_table(f"t{n}", int(r), float(length), int(d), float(skew)) for n, (r, length, d, skew) in enumerate(sizes)],
        }
    )


def _lognormal(rng: np.random.Generator, count: int, mean: float, sigma: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """`count` values around `mean`, scaled to have it exactly."""
    values = rng.lognormal(0.0, sigma, count)
    return np.asarray(values / values.mean() * mean, dtype=np.float64)


def _table(name: str, rows: int, length: float, dim: int, skew: float) -> dict[str, Any]:
    mean = round(max(1.0, length), 2)
    spread = {"fixed": 1} if mean == 1 else {"lognormal": {"mean": mean, "sigma": 0.8}}
    return {
        "name": name,
        "num_embeddings": max(30, rows),
        "embedding_dim": dim,
        "access": {"zipf": skew} if skew else "uniform",
        "features": [{"name": f"f_{name}", "length": spread}],
    }
