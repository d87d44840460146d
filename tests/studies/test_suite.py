"""The template `suite`: the models of the paper's design space."""

from __future__ import annotations

import json

import pytest
import yaml

from emplace.placement.catalog import builtin_model
from emplace.placement.catalog.suite import suite_settings
from emplace.placement.errors import InvalidDocument
from tests.app.cli.command import Emplace
from tests.app.cli.conftest import emplace_here

__all__ = ["emplace_here"]


def test_settings_make_the_model() -> None:
    model = suite_settings(["sparse=64", "mlp=256^2", "hash=5M", "dense=64", "batch=32", "dim=64"]).model()
    assert (len(model.tables), model.dense_features, model.local_batch_size) == (64, 64, 32)
    assert {(table.num_embeddings, table.embedding_dim) for table in model.tables} == {(5_000_000, 64)}
    assert model.bottom_mlp == model.top_mlp == (256, 256)


def test_what_was_published_of_it() -> None:
    settings = suite_settings([])
    model = settings.model()
    assert builtin_model("suite") == model
    assert (model.local_batch_size, settings.model(on_gpus=False).local_batch_size) == (1600, 200)
    assert model.top_mlp == (512, 512, 512)
    assert {(table.num_embeddings, table.features[0].truncate) for table in model.tables} == {(100_000, 32)}
    assert all(table.features[0].lengths.longest == 32 for table in model.tables)


def test_a_length_of_one_is_fixed() -> None:
    table = suite_settings(["length=1", "sparse=1"]).model().tables[0]
    assert table.features[0].lengths.variance == 0


@pytest.mark.parametrize("given", ["sparse", "sparse=0", "mlp=3x3", "columns=4", "hash=1.5"])
def test_settings_that_are_none(given: str) -> None:
    with pytest.raises(InvalidDocument, match="--set"):
        suite_settings([given])
    with pytest.raises(InvalidDocument, match="is set twice"):
        suite_settings(["sparse=4", "sparse=5"])


def test_it_is_printed_and_planned_with_settings(emplace_here: Emplace) -> None:
    printed = emplace_here("models", "suite", "--set", "sparse=3", "--set", "mlp=64^2")
    assert len(yaml.safe_load(printed.stdout)["tables"]) == 3
    planned = emplace_here("plan", "suite", "--set", "sparse=3", "--host", "cpu-dual-socket", "--format", "json")
    assert len(json.loads(planned.stdout)["tables"]) == 3
    for arguments in (("plan", "m1", "--host", "zion"), ("models", "m1"), ("models",)):
        refused = emplace_here(*arguments, "--set", "sparse=3")
        assert refused.returncode == 2
        assert "suite" in refused.stderr
