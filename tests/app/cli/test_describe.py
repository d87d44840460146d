"""`emplace describe`: a function that builds a module, then its document."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from emplace.placement.model import ModelSpec
from emplace.placement.reading import read_file
from tests.app.cli.command import Emplace

pytestmark = pytest.mark.torch

PROGRAM = """
from torch import nn
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig

def build():
    table = EmbeddingBagConfig(name="user", num_embeddings=10**11, embedding_dim=64, feature_names=["user"])
    return nn.ModuleDict({"sparse": EmbeddingBagCollection(tables=[table], device="meta"), "over": nn.Linear(64, 1)})

def wrong():
    return 3

def broken():
    raise ValueError("no such column")
"""


def test_a_module_becomes_a_document(emplace_here: Emplace, tmp_path: Path) -> None:
    (tmp_path / "trained.py").write_text(PROGRAM)
    done = emplace_here("describe", "trained:build", "--batch-size", "256", "--device", "cpu", "--out", "model.yaml")
    assert done.returncode == 0, done.stderr
    described = read_file(tmp_path / "model.yaml", ModelSpec)
    assert yaml.safe_load(done.stdout) == yaml.safe_load((tmp_path / "model.yaml").read_text())
    [table] = described.tables
    assert (table.name, table.num_embeddings, table.embedding_dim, described.local_batch_size) == ("user", 10**11, 64, 256)
    assert table.constraints.compute_kernels == ("fused", "dense")


@pytest.mark.parametrize(
    ("builder", "said"),
    [
        ("faulty:wrong", "must return an nn.Module, it returned int"),
        ("faulty:broken", "faulty:broken failed: ValueError: no such column"),
        ("faulty:none", "must name a function: faulty has none of that name"),
        ("no_such_program:build", "failed: ModuleNotFoundError: No module named 'no_such_program'"),
        ("faulty", "must name a function, such as package.module:build_model"),
    ],
)
def test_builders_that_build_nothing(emplace_here: Emplace, tmp_path: Path, builder: str, said: str) -> None:
    (tmp_path / "faulty.py").write_text(PROGRAM)
    done = emplace_here("describe", builder)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_batch_size_that_is_none(emplace_here: Emplace, tmp_path: Path) -> None:
    (tmp_path / "counted.py").write_text(PROGRAM)
    done = emplace_here("describe", "counted:build", "--batch-size", "0")
    assert done.returncode == 2
    assert "/local_batch_size" in done.stderr


CONFIGS = """
from torchrec import EmbeddingBagConfig, EmbeddingConfig
from torchrec.modules.embedding_configs import DataType, PoolingType

user = EmbeddingBagConfig(
    name="user", num_embeddings=1000, embedding_dim=64, feature_names=["user", "friend"], data_type=DataType.FP16, pooling=PoolingType.MEAN
)
history = EmbeddingConfig(name="history", num_embeddings=200, embedding_dim=32, feature_names=["seen"])

class Job:
    tables = [user, history]

def tables():
    return {"user": user}

nothing = 3
"""


def test_the_configs_of_a_program_are_converted(emplace_here: Emplace, tmp_path: Path) -> None:
    (tmp_path / "configured.py").write_text(CONFIGS)
    done = emplace_here("convert", "torchrec", "configured:Job.tables", "--batch-size", "64", "--out", "model.yaml")
    assert done.returncode == 0, done.stderr
    model = read_file(tmp_path / "model.yaml", ModelSpec)
    found = [(each.name, each.num_embeddings, each.data_type.value, model.module_of(each).is_pooled) for each in model.tables]
    assert found == [("user", 1000, "fp16", True), ("history", 200, "fp32", False)]
    assert [feature.name for feature in model.tables[0].features] == ["user", "friend"]
    assert emplace_here("convert", "torchrec", "configured:tables", "--batch-size", "64").returncode == 0


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("misconfigured:nothing", "misconfigured:nothing failed: TypeError"),
        ("misconfigured:Job.lost", "misconfigured:Job.lost failed: AttributeError"),
        (
            "misconfigured:Job.__name__",
            "misconfigured:Job.__name__: (document): must hold TorchRec's EmbeddingBagConfig or EmbeddingConfig",
        ),
    ],
)
def test_programs_without_configs(emplace_here: Emplace, tmp_path: Path, path: str, said: str) -> None:
    (tmp_path / "misconfigured.py").write_text(CONFIGS)
    done = emplace_here("convert", "torchrec", path, "--batch-size", "64")
    assert done.returncode == 2
    assert said in done.stderr
