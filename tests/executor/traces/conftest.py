"""The same examples, in memory and in a file of each format."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest

from tests.executor.plans import make_model
from tests.executor.traces.examples import EXAMPLES, FORMATS, names_of

if TYPE_CHECKING:
    from emplace.runtime.dlrm import Batch


@pytest.fixture(scope="session")
def drawn() -> Batch:
    from emplace.runtime.batches import draw_batch  # torch, which not every Python here has

    return draw_batch(make_model(), EXAMPLES, 1, 0, 0)


@pytest.fixture(scope="session")
def lists(drawn: Batch) -> dict[str, list[list[int]]]:
    """The ids of each feature, example by example."""
    return {name: [ids.tolist() for ids in drawn.sparse[name].to_dense()] for name in names_of(drawn)}


@pytest.fixture(scope="session")
def files(drawn: Batch, lists: dict[str, list[list[int]]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same examples in each format."""
    import torch

    folder = tmp_path_factory.mktemp("traces")
    sparse, names = drawn.sparse, names_of(drawn)
    torch.save((sparse.values(), sparse.offsets(), sparse.lengths().view(len(names), EXAMPLES)), folder / "trace.pt")
    parquet.write_table(arrow.table({"note": ["x"] * EXAMPLES} | lists), folder / "trace.parquet")
    with (folder / "trace.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows([" ".join(map(str, lists[name][example])) for name in names] for example in range(EXAMPLES))
    return {suffix: folder / f"trace.{suffix}" for suffix in FORMATS}
