"""Predicted peak bytes of models with sequences, held against real training under plans made by hand.

    python -m benchmarks.sequence_peaks [--ranks 2,4] [--models N] [--seed S] [--out FILE]

Random models: an EmbeddingCollection of two to four tables, mostly an EmbeddingBagCollection beside it, skewed or uniform ids, hashed or
by frequency. Each plan is launched on its own over gloo. Prints one JSON line a plan: what each rank was reckoned and measured to peak at,
in bytes. A plan of which no rank peaks at 128 MiB is left out: what a process takes whatever it trains is a share of that.
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.hand_placements import Placements, column_pieces, plan_by_hand, row_blocks, whole_table
from benchmarks.json_lines import emit
from benchmarks.random_models import asked_models
from emplace.executor.launch import Launch
from emplace.executor.run import run_plan
from emplace.hardware.discover import discover_host
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec, ShardingType, Table
from emplace.placement.plan import PlanOptions, TablePlacement
from emplace.planning import build_question

LEAST_BYTES = 128 * 2**20
_STEPS = 4
_LAUNCH_SECONDS = 480.0
_SEQUENCE_BYTES = (150e6, 500e6)
"""Vectors of one step on all ranks together."""

Style = Callable[[np.random.Generator, Table, int], TablePlacement]


def main() -> None:
    arguments = asked_models(__doc__, models=6)
    logging.disable(logging.CRITICAL)
    warnings.filterwarnings("ignore")
    host = discover_host()
    with tempfile.TemporaryDirectory(prefix="emplace-benchmark-") as workdir:
        for ranks in arguments.ranks:
            for number in range(arguments.models):
                for line in peaks(host, ranks, arguments.seed, number, Path(workdir)):
                    emit(line, arguments.out)


def peaks(host: HostSpec, ranks: int, seed: int, number: int, workdir: Path) -> Iterator[dict[str, Any]]:
    """One line for each plan of a drawn model. Raises EmplaceError where one is refused or fails."""
    rng = np.random.default_rng([seed, ranks, number])
    model = draw_model(rng, f"sequences-{seed}-{ranks}-{number}", ranks)
    question = build_question(model, host, PlanOptions(ranks=ranks, seed=seed))
    for style, placements in draw_plans(rng, model, ranks):
        launch = Launch(steps=_STEPS, seed=seed, workdir=workdir, timeout_s=_LAUNCH_SECONDS)
        found = run_plan(plan_by_hand(question, placements), launch).ranks
        reckoned, measured = [rank.predicted_bytes for rank in found], [rank.peak_bytes for rank in found]
        if max(measured) >= LEAST_BYTES:
            yield {
                "model": model.name,
                "ranks": ranks,
                "plan": style,
                "fullest_rank_off": max(reckoned) / max(measured) - 1,
                "each_off": [one / other - 1 for one, other in zip(reckoned, measured, strict=True)],
                "reckoned_bytes": reckoned,
                "measured_bytes": measured,
            }


def draw_model(rng: np.random.Generator, name: str, ranks: int) -> ModelSpec:
    """Two to four tables of sequences; three times of four pooled tables, up to as many, beside them."""
    dim, batch = int(rng.choice([32, 64, 128])), int(rng.choice([512, 1024, 2048, 4096]))
    sequences, pooled = int(rng.integers(2, 5)), int(rng.integers(5)) if rng.random() < 0.75 else 0
    share = rng.dirichlet(np.full(sequences, 1.5))
    vectors = np.exp(rng.uniform(*np.log(_SEQUENCE_BYTES))) / (4 * dim)
    lengths = np.maximum(share * vectors / (batch * ranks), 1.0)
    tables = [_table(rng, f"s{n}", dim, float(lengths[n])) | {"module": "sparse.history"} for n in range(sequences)]
    tables += [_table(rng, f"p{n}", dim, float(rng.uniform(1, 8))) | {"module": "sparse.profile"} for n in range(pooled)]
    history = {"path": "sparse.history", "pooling": "none", "column_width": dim // ranks}
    return ModelSpec.model_validate(
        {
            "schema_version": 1,
            "name": name,
            "local_batch_size": batch,
            "dense_features": 13,
            "bottom_mlp": [64, dim],
            "top_mlp": [64, 1],
            "interaction": "cat",
            "optimizer": str(rng.choice(["rowwise_adagrad", "adagrad", "sgd"])),
            "modules": [history, {"path": "sparse.profile"}] if pooled else [history],
            "tables": tables,
        }
    )


def _table(rng: np.random.Generator, name: str, dim: int, length: float) -> dict[str, Any]:
    """One or two features, of very different lengths; ids skewed or not, and then now and then by frequency."""
    skew = float(rng.choice([0.0, 0.9, 1.05, 1.2]))
    features = [{"name": f"f_{name}", "length": {"poisson": length}}]
    if rng.random() < 0.4:
        features.append({"name": f"g_{name}", "length": {"poisson": 0.7}})
    return {
        "name": name,
        "num_embeddings": int(np.exp(rng.uniform(np.log(2e3), np.log(3e5)))),
        "embedding_dim": dim,
        "access": {"zipf": skew} if skew else "uniform",
        "features": features,
    } | ({"ids": "by_frequency"} if skew and rng.random() < 0.25 else {})


def draw_plans(rng: np.random.Generator, model: ModelSpec, ranks: int) -> Iterator[tuple[str, Placements]]:
    """Plans as people make them by hand: sequences in one way or each in another, pooled tables whole."""
    for name, style in _STYLES.items():
        yield name, tuple((_whole if model.module_of(table).is_pooled else style)(rng, table, ranks) for table in model.tables)


def _whole(rng: np.random.Generator, table: Table, ranks: int) -> TablePlacement:
    return whole_table(table, int(rng.integers(ranks)))


def _columns(rng: np.random.Generator, table: Table, ranks: int) -> TablePlacement:
    return column_pieces(table, rng.permutation(ranks).tolist())


def _rows(rng: np.random.Generator, table: Table, ranks: int) -> TablePlacement:
    del rng
    return row_blocks(table, ranks, ShardingType.ROW_WISE)


def _any(rng: np.random.Generator, table: Table, ranks: int) -> TablePlacement:
    return (_whole, _columns, _rows)[int(rng.integers(3))](rng, table, ranks)


_STYLES: dict[str, Style] = {"whole tables": _whole, "all column-wise": _columns, "all row-wise": _rows, "every type": _any}


if __name__ == "__main__":
    main()
