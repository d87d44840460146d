"""Configurations of other projects become model documents; what is not carried over is named."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from emplace.app.converting.converted import Converted
from emplace.app.converting.dlrm import from_deeprecsys
from emplace.app.converting.hugectr import from_hugectr
from emplace.app.converting.torchrec_configs import from_embedding_configs
from emplace.placement.errors import InvalidDocument
from emplace.placement.model import ModelSpec
from emplace.placement.reading import from_data
from tests.app.cli.command import Emplace

DLRM = """\
#!/bin/bash
# --arch-embedding-size is said below
python dlrm_s_pytorch.py --arch-sparse-feature-size=16 --arch-mlp-bot="13-64-16" \\
    --arch-mlp-top="32-1" --arch-embedding-size=1000-20-300000 --max-ind-range=5000 --mini-batch-size=256 \\
    --num-indices-per-lookup=4 --optimizer rwsadagrad --qr-flag --learning-rate=0.1 2>&1 | tee run.log
"""
DEEPRECSYS = {
    "arch_mlp_bot": "64-32",
    "arch_mlp_top": "32-1",
    "arch_embedding_size": "5000-600",
    "arch_sparse_feature_size": 32,
    "num_indices_per_lookup_fixed": True,
    "num_indices_per_lookup": 7,
    "arch_interaction_op": "cat",
    "model_type": "wnd",
    "model_name": "small",
}
TORCHREC = [
    {"name": "users", "num_embeddings": 1000, "embedding_dim": 18, "feature_names": ["user", "friend"], "data_type": "DataType.FP16"},
    {"name": "pages", "num_embeddings": 20, "embedding_dim": 64, "feature_names": ["page"], "pooling": "SUM", "init_fn": "xavier"},
]
HUGECTR: dict[str, Any] = {
    "solver": {"batchsize": 4096, "gpu": [[0, 1], [0, 1]], "mixed_precision": 1024},
    "optimizer": {"type": "MomentumSGD"},
    "layers": [
        {
            "name": "data",
            "type": "Data",
            "dense": {"top": "dense", "dense_dim": 13},
            "sparse": [
                {"top": "hot", "slot_num": 2, "max_nnz": 3},
                {"top": "wide", "slot_num": 5, "max_feature_num_per_sample": 10},
            ],
        },
        {
            "name": "deep",
            "type": "LocalizedSlotSparseEmbeddingHash",
            "bottom": "hot",
            "top": "deep",
            "sparse_embedding_hparam": {"embedding_vec_size": 16, "slot_size_array": [300, 40]},
        },
        {
            "name": "linear",
            "type": "DistributedSlotSparseEmbeddingHash",
            "bottom": "wide",
            "top": "linear",
            "sparse_embedding_hparam": {"embedding_vec_size": 1, "max_vocabulary_size_per_gpu": 100},
        },
        {"name": "fc1", "type": "FusedInnerProduct", "bottom": "dense", "top": "fc1", "fc_param": {"num_output": 32}},
        {"name": "fc2", "type": "InnerProduct", "bottom": "fc1", "top": "fc2", "fc_param": {"num_output": 16}},
        {"name": "joined", "type": "Concat", "bottom": ["fc2", "deep", "linear"], "top": "joined"},
        {"name": "fm", "type": "FmOrder2", "bottom": "joined", "top": "fm"},
        {"name": "fc3", "type": "InnerProduct", "bottom": "fm", "top": "fc3", "fc_param": {"num_output": 1}},
        {"name": "loss", "type": "BinaryCrossEntropyLoss", "bottom": ["fc3", "label"], "top": "loss"},
    ],
}


def convert(emplace: Emplace, folder: Path, kind: str, text: str, *more: str) -> tuple[dict[str, Any], list[str]]:
    (folder / "given").write_text(text)
    done = emplace("convert", kind, "given", "--format", "json", *more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), [line.removeprefix("given: ") for line in done.stderr.splitlines()]


def tables(model: dict[str, Any]) -> list[tuple[str, int, int, int]]:
    return [(each["name"], each["num_embeddings"], each["embedding_dim"], len(each["features"])) for each in model["tables"]]


def test_a_command_line_of_dlrm(emplace_here: Emplace, tmp_path: Path) -> None:
    model, notes = convert(emplace_here, tmp_path, "dlrm", DLRM)
    assert tables(model) == [("t0", 1000, 16, 1), ("t1", 20, 16, 1), ("t2", 5000, 16, 1)]
    assert (model["dense_features"], model["bottom_mlp"], model["top_mlp"], model["interaction"]) == (13, [64, 16], [32, 1], "dot")
    assert (model["local_batch_size"], model["optimizer"]) == (256, "rowwise_adagrad")
    # round(r x 4), at least 1, of an even r
    assert model["tables"][0]["features"][0]["length"]["histogram"] == {"lengths": [1, 2, 3, 4], "weights": [0.375, 0.25, 0.25, 0.125]}
    assert notes == ["mini-batch-size 256 is taken for each rank's", "not carried over: learning-rate, qr-flag"]


def test_a_file_of_deeprecsys(emplace_here: Emplace, tmp_path: Path) -> None:
    model, notes = convert(emplace_here, tmp_path, "deeprecsys", json.dumps(DEEPRECSYS), "--batch-size", "64", "--name", "ours")
    assert (model["name"], model["local_batch_size"], tables(model)) == ("ours", 64, [("t0", 5000, 32, 1), ("t1", 600, 32, 1)])
    assert model["tables"][0]["features"][0]["length"] == {"fixed": 7}
    assert notes == ["model-type wnd: what it computes beside tables and both perceptrons is left out"]


def test_a_list_of_embedding_configs(emplace_here: Emplace, tmp_path: Path) -> None:
    model, notes = convert(emplace_here, tmp_path, "torchrec", json.dumps(TORCHREC), "--batch-size", "64")
    assert tables(model) == [("users", 1000, 20, 2), ("pages", 20, 64, 1)]
    assert [each["data_type"] for each in model["tables"]] == ["fp16", "fp32"]
    assert [each["module"] for each in model["tables"]] == ["ec_20", "ebc"]
    assert [(each["path"], each["pooling"]) for each in model["modules"]] == [("ec_20", "none"), ("ebc", "sum")]
    assert notes[-4:] == [
        "embedding_dim is rounded up to a multiple of 4 in users",
        "where modules are is not in these configs; assumed ec_20, ebc",
        "not carried over: init_fn",
        "without pooling, so sequences of vectors: users; write pooling: SUM in those that are EmbeddingBagConfigs",
    ]


def test_a_graph_of_hugectr(emplace_here: Emplace, tmp_path: Path) -> None:
    model, notes = convert(emplace_here, tmp_path, "hugectr", json.dumps(HUGECTR))
    assert tables(model) == [("deep_0", 300, 16, 1), ("deep_1", 40, 16, 1), ("linear", 400, 4, 5)]
    assert [each["features"][0]["length"] for each in model["tables"]] == [{"fixed": 3}, {"fixed": 3}, {"fixed": 2}]
    assert (model["dense_features"], model["bottom_mlp"], model["top_mlp"]) == (13, [32, 16], [1])
    assert (model["local_batch_size"], model["dense_precision"], model["interaction"]) == (1024, "fp16", "cat")
    assert [each["output_data_type"] for each in model["modules"]] == ["fp16"]
    assert notes == [
        "linear: ids of a slot are not given; 2 each, of at most 10 in all",
        "embedding_dim is rounded up to a multiple of 4 in linear",
        "linear: one table that its 5 slots share, as slot sizes are not given",
        "optimizer MomentumSGD is priced as adagrad, which keeps as much state",
        "batchsize 4096 over 4 GPUs",
        "layers that are left out: FmOrder2",
    ]


def test_what_is_converted_can_be_checked(emplace_here: Emplace, tmp_path: Path) -> None:
    (tmp_path / "graph.json").write_text(json.dumps(HUGECTR))
    assert emplace_here("convert", "hugectr", "graph.json", "--out", "model.yaml").returncode == 0
    assert emplace_here("check", "model.yaml", "--host", "dgx-h100").returncode == 0


OTHERS: tuple[Any, ...] = (None, True, -1, 0, 0.5, "x", [], ["x"], {}, [1, [2]], {"a": [{}]}, 10**30)


def changed(value: Any) -> Iterator[Any]:
    """With one part, at any depth, replaced by another thing or left out."""
    for key, part in list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()):
        for other in (*OTHERS, *changed(part)):
            made = copy.copy(value)
            made[key] = other
            yield made
        made = copy.copy(value)
        del made[key]
        yield made


@pytest.mark.parametrize(
    ("converter", "given"), [(from_hugectr, HUGECTR), (from_embedding_configs, TORCHREC), (from_deeprecsys, DEEPRECSYS)]
)
def test_whatever_stands_there_is_converted_or_refused(converter: Callable[[str, str], Converted], given: Any) -> None:
    refused = read = 0
    for other in changed(given):
        try:
            found = converter(json.dumps(other), "given")
            from_data({"local_batch_size": 1} | found.data, ModelSpec, source="given")
            read += 1
        except InvalidDocument:
            refused += 1
    assert refused > 30
    assert read > 10


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("dlrm", "python train.py --arch-mlp-bot=13-4", "--arch-embedding-size is required"),
        ("dlrm", "python train.py", "given: (document): has no command with --arch- options"),
        ("dlrm", "x --arch-embedding-size=a-b --arch-mlp-top=1", "/arch-embedding-size: must be whole numbers with hyphens"),
        ("deeprecsys", json.dumps(DEEPRECSYS), "given does not say how many examples a rank has: say --batch-size"),
        ("deeprecsys", "[", "given:1:"),
        ("torchrec", '[{"name": "a", "num_embeddings": 3, "embedding_dim": 4}]', "given: /0/feature_names: is required"),
        ("torchrec", "{}", "must be a list of embedding configs"),
        ("hugectr", '{"layers": []}', "must have a layer of embeddings"),
        (
            "hugectr",
            json.dumps(HUGECTR).replace('"bottom": "hot"', '"bottom": "cold"'),
            "deep: no sparse input of a Data layer has this name",
        ),
        (
            "hugectr",
            json.dumps(HUGECTR).replace("max_vocabulary_size_per_gpu", "workspace"),
            "/layers/2/sparse_embedding_hparam: needs slot",
        ),
        ("dlrm", DLRM.replace("1000-20-300000", "0-20"), "given as a model: /tables/0/num_embeddings: must be greater than 0"),
    ],
)
def test_what_cannot_be_converted_is_refused(emplace_here: Emplace, tmp_path: Path, kind: str, text: str, said: str) -> None:
    (tmp_path / "given").write_text(text)
    done = emplace_here("convert", kind, "given")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
