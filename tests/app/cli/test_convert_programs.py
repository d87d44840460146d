"""HugeCTR's scripts and dumps, and TorchEasyRec's pipeline configs, become model documents; scripts are never run."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.hostile_text import mutated
from emplace.app.converting.converted import Converted
from emplace.app.converting.hugectr_script import from_hugectr_script
from emplace.app.converting.torcheasyrec import from_torcheasyrec
from emplace.placement.errors import InvalidDocument
from emplace.placement.model import ModelSpec
from emplace.placement.reading import from_data
from tests.app.cli.command import Emplace
from tests.app.cli.test_convert import convert, tables

SCRIPT = """
import argparse
from pathlib import Path
import hugectr
from mpi4py import MPI

Path("was_run").touch()
SIZES = [40000, 39060, 17295]
HOTNESS = [3, 2, 1]
parser = argparse.ArgumentParser()
parser.add_argument("--batchsize", type=int, default=8192)
parser.add_argument("--optimizer", default="adagrad")
parser.add_argument("--use_mixed_precision", action="store_true")
args = parser.parse_args()

solver = hugectr.CreateSolver(
    model_name="ours", batchsize=args.batchsize, vvgpu=[[0, 1, 2, 3]] * 2, use_mixed_precision=args.use_mixed_precision
)
if args.optimizer == "adagrad":
    optimizer = hugectr.CreateOptimizer(optimizer_type=hugectr.Optimizer_t.AdaGrad)
else:
    optimizer = hugectr.CreateOptimizer(optimizer_type=hugectr.Optimizer_t.SGD)
reader = hugectr.DataReaderParams(source=["train.bin"], slot_size_array=SIZES + [50, 60])
model = hugectr.Model(solver, reader, optimizer)
model.add(hugectr.Input(
    label_dim=1, label_name="label", dense_dim=13, dense_name="dense",
    data_reader_sparse_param_array=[hugectr.DataReaderSparseParam("data{}".format(i), HOTNESS[i], True, 1) for i in range(len(SIZES))]
    + [hugectr.DataReaderSparseParam("wide", [1, 4], False, 2)],
))
tables = []
for i in range(len(SIZES)):
    tables.append(hugectr.EmbeddingTableConfig(name=f"t{i}", max_vocabulary_size=SIZES[i], ev_size=64 * 2))
ebc = hugectr.EmbeddingCollectionConfig(use_exclusive_keys=True)
ebc.embedding_lookup(table_config=tables, bottom_name=["data0", "data1", "data2"], top_name="sparse", combiner=["sum"] * 3)
ebc.embedding_lookup(table_config=tables[0], bottom_name="data2", top_name="again", combiner="mean")
model.add(ebc)
model.add(hugectr.SparseEmbedding(
    embedding_type=hugectr.Embedding_t.LocalizedSlotSparseEmbeddingHash, workspace_size_per_gpu_in_mb=75, embedding_vec_size=16,
    combiner="sum", sparse_embedding_name="wide", bottom_name="wide", optimizer=optimizer,
))

def tower(name, bottom, widths):
    model.add(hugectr.DenseLayer(layer_type=hugectr.Layer_t.MLP, bottom_names=bottom, top_names=[name], num_outputs=widths))

tower("mlp1", ["dense"], [512, 128])
model.add(hugectr.DenseLayer(layer_type=hugectr.Layer_t.Concat, bottom_names=["sparse", "again", "mlp1", "wide"], top_names=["all"]))
model.add(hugectr.DenseLayer(
    layer_type=hugectr.Layer_t.MultiCross, bottom_names=["all"], top_names=["crossed"], projection_dim=512, num_layers=3
))
tower("mlp2", ["crossed"], [1024, 256, 1])
while True:
    model.add(hugectr.DenseLayer(layer_type=hugectr.Layer_t.Scale, bottom_names=["mlp2"], top_names=["mlp2"]))
model.fit()
"""
GRAPH = """
{"layers": [
  {"type": "Data", "label": {"top": "label", "label_dim": 1}, "dense": {"top": "dense", "dense_dim": 0},
   "sparse": [{"top": "data1", "nnz_per_slot": [1, 5], "is_fixed_length": false, "slot_num": 2}]},
  {"type": "DistributedSlotSparseEmbeddingHash", "bottom": "data1", "top": "emb",
   "sparse_embedding_hparam": {"workspace_size_per_gpu_in_mb": 75, "max_vocabulary_size_global": 409600, "embedding_vec_size": 16,
                               "combiner": "sum"},
   "optimizer": {"type": "SGD", "update_type": "Local", "sgd_hparam": {"atomic_update": true}}},
  {"type": "FusedInnerProduct", "bottom": "emb", "top": "fc1", "fc_param": {"num_output": 32}},
  {"type": "MLP", "bottom": "fc1", "top": "fc2", "mlp_param": {"num_output": 1, "num_outputs": [16, 1], "activations": ["Relu", "None"]}}
 ], "model_name": "dumped model"}
"""
PIPELINE = r"""
train_input_path: ""   # comments, both quotes, lists, and < > for { }
train_config {
  sparse_optimizer { partial_rowwise_adam_optimizer { lr: 1e-3 } }
  mixed_precision: "BF16"
  global_embedding_constraints { sharding_types: ["table_wise", 'row_wise'] compute_kernels: "key_value" }
}
data_config { batch_size: 8192 negative_sampler { num_sample: 1024 } }
feature_configs { id_feature { feature_name: "user" expression: "user:id" hash_bucket_size: 1000000 embedding_dim: 16 pooling: 'mean' } }
feature_configs { id_feature { feature_name: "item" num_buckets: 10000, embedding_dim: 16; embedding_name: "item_emb" value_dim: 3 } }
feature_configs { combo_feature < feature_name: "tag" vocab_list: ["a", "b" "c"] embedding_dim: 6 > }
feature_configs { id_feature { feature_name: "word" vocab_file: "words.txt" embedding_dim: 8 } }
feature_configs { id_feature { feature_name: "kept" zch { zch_size: 500 lru { } } embedding_dim: 16 data_type: "FP16" } }
feature_configs { raw_feature { feature_name: "price" } }
feature_configs { raw_feature { feature_name: "place" value_dim: 4 } }
feature_configs { raw_feature { feature_name: "age" boundaries: [0.1, 0.2, 3] embedding_dim: 16 } }
feature_configs { raw_feature { feature_name: "rating" embedding_dim: 8 autodis { num_channels: 3 } } }
feature_configs { raw_feature { feature_name: "unused" } }
feature_configs { sequence_feature {
  sequence_name: "click" sequence_length: 50 sequence_delim: "|"
  features { id_feature { feature_name: "item" num_buckets: 10000 embedding_dim: 16 embedding_name: "item_emb" } }
} }
feature_configs { sequence_id_feature { feature_name: "bought" sequence_length: 20 hash_bucket_size: 100 embedding_dim: 8 } }
model_config {
  feature_groups { group_name: "wide" feature_names: "user" group_type: WIDE }
  feature_groups {
    group_name: "deep" group_type: DEEP
    feature_names: ["user", "item", "tag", "word", "kept", "price", "place", "age", "rating"]
    sequence_groups { group_name: "history" feature_names: "item" feature_names: "click__item" feature_names: "bought" }
    sequence_encoders { din_encoder { input: "history" } }
  }
  deepfm { deep { hidden_units: [512, 256] } final { hidden_units: 64 } wide_embedding_dim: 8 fm_is_new: true }
}
"""


def test_a_script_is_read_and_never_run(emplace_here: Emplace, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    done = emplace_here("convert", "hugectr", "train.py", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "was_run").exists()
    model = from_data(json.loads(done.stdout), ModelSpec, source="out")
    lengths = [(each.name, each.num_embeddings, each.embedding_dim, [f.lengths.mean for f in each.features]) for each in model.tables]
    assert lengths == [
        ("t0", 40000, 128, [3, 1]),
        ("t1", 39060, 128, [2]),
        ("t2", 17295, 128, [1]),
        ("wide_0", 50, 16, [1]),
        ("wide_1", 60, 16, [4]),
    ]
    assert (model.name, model.local_batch_size, model.optimizer.value, model.dense_precision) == ("ours", 1024, "adagrad", None)
    assert (model.dense_features, model.bottom_mlp, model.top_mlp) == (13, (512, 128), (1024, 256, 1))
    assert model.dcn is not None
    assert (model.interaction.value, model.dcn.low_rank_dim) == ("dcn", 512)
    assert [line.removeprefix("train.py: ") for line in done.stderr.splitlines()] == [
        "options of its command line are as by default: batchsize, use_mixed_precision, optimizer",
        "line 51: is not followed",
        "batchsize 8192 over 8 GPUs",
    ]


def test_what_only_a_run_would_tell_is_asked_for(emplace_here: Emplace, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.replace("[[0, 1, 2, 3]] * 2", "[[0]] * MPI.COMM_WORLD.Get_size()"))
    done = emplace_here("convert", "hugectr", "train.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert "train.py does not say how many examples a rank has: say --batch-size" in done.stderr
    done = emplace_here("convert", "hugectr", "train.py", "--batch-size", "512")
    assert done.returncode == 0
    assert "line 16: vvgpu is not known without running the script" in done.stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("max_vocabulary_size=SIZES[i]", "max_vocabulary_size=rows()[i]"),
            "train.py:32: (document): max_vocabulary_size of EmbeddingTable",
        ),
        (("model = hugectr.Model", "model = ours.Network"), "has no hugectr.Model that layers are added to"),
        (
            ("Path(", "for i in range(9999):\n  for j in range(9999): x = [i] * j\nPath("),
            "does more than can be followed without running it",
        ),
        (("import hugectr", "import = hugectr"), "train.py:4: (document): is no Python: invalid syntax"),
    ],
)
def test_scripts_that_cannot_be_followed(emplace_here: Emplace, tmp_path: Path, change: tuple[str, str], said: str) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.replace(*change))
    done = emplace_here("convert", "hugectr", "train.py")
    assert done.returncode == 2
    assert said in done.stderr


def test_a_graph_that_the_python_api_dumped(emplace_here: Emplace, tmp_path: Path) -> None:
    model, notes = convert(emplace_here, tmp_path, "hugectr", GRAPH, "--batch-size", "64")
    assert tables(model) == [("emb", 409600, 16, 2)]
    assert [feature["length"] for feature in model["tables"][0]["features"]] == [{"fixed": 1}, {"fixed": 5}]
    assert (model["name"], model["optimizer"], model["top_mlp"]) == ("dumped-model", "sgd", [32, 16, 1])
    assert notes == ["emb: one table that its 2 slots share, as slot sizes are not given"]
    model, notes = convert(
        emplace_here, tmp_path, "hugectr", GRAPH.replace('"max_vocabulary_size_global": 409600,', ""), "--batch-size", "64"
    )
    assert tables(model) == [("emb", 75 * 2**20 // (16 * 4), 16, 2)]
    assert notes[0] == "emb: its rows are not given; as many as its workspace holds on 1 GPUs"


def test_a_pipeline_of_torcheasyrec(emplace_here: Emplace, tmp_path: Path) -> None:
    model, notes = convert(emplace_here, tmp_path, "torcheasyrec", PIPELINE)
    found = [(each["name"], each["num_embeddings"], each["embedding_dim"], each["module"]) for each in model["tables"]]
    assert found == [
        ("user_emb_wide", 1_000_000, 8, "ebc"),
        ("user_emb", 1_000_000, 16, "ebc"),
        ("item_emb", 10_000, 16, "ebc"),
        ("tag_emb", 4, 8, "ebc"),
        ("kept_emb", 500, 16, "ebc"),
        ("age_emb", 4, 16, "ebc"),
        ("item_emb:sequence", 10_000, 16, "ec_16"),
        ("bought_emb", 100, 8, "ec_8"),
    ]
    lengths = {feature["name"]: feature["length"]["fixed"] for table in model["tables"] for feature in table["features"]}
    assert lengths == {
        "user": 1,
        "user:user_emb": 1,
        "item": 3,
        "tag": 1,
        "kept": 1,
        "age": 1,
        "item:item_emb-sequence": 3,
        "click__item": 50,
        "bought": 20,
    }
    assert (model["local_batch_size"], model["optimizer"], model["dense_precision"]) == (8192, "adam", "bf16")
    assert (model["dense_features"], model["bottom_mlp"], model["top_mlp"]) == (5, [], [512, 256, 64, 1])
    assert model["tables"][4]["data_type"] == "fp16"
    assert model["tables"][0]["constraints"] == {"sharding_types": ["table_wise", "row_wise"]}
    assert [note for note in notes if "key_value" not in note] == [
        "partial_rowwise_adam_optimizer is priced as adam",
        "left out of deepfm: fm_is_new",
        "ids of a feature are its value_dim, else 1; emplace trace measures them",
        "a sequence is as long as it may be: click__item, bought",
        "no known number of rows, table left out (add it): word",
        "embeddings of numbers (autodis, mlp) are left out: rating",
        "pooling mean is priced as sum: user",
        "zch and dynamicemb are priced as plain tables of their full size: kept",
        "features that no group uses are left out: unused",
        "not carried over: negative_sampler",
        "embedding_dim is rounded up to a multiple of 4 in tag_emb",
    ]
    assert "item: compute_kernels that are not carried over: key_value" in notes


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('feature_names: "user"', 'feature_names: "usr"'), "/model_config/feature_groups: is no feature of feature_configs (got usr)"),
        (("num_buckets: 10000,", "num_buckets: 0.5,"), "/feature_configs[item]/num_buckets: must be a whole number from 1"),
        (("num_buckets: 10000,", "num_buckets: 20000,"), "has another size than the feature that it shares item_emb with"),
        (("data_config {", "data_config = {"), "given:8: (document): is no text format of protocol buffers (got =)"),
        (("model_config {", "model_config {{"), "a field's name was expected (got {)"),
        (("group_type: WIDE }", "group_type: WIDE"), "a } was expected (got the end)"),
    ],
)
def test_pipelines_that_are_wrong(emplace_here: Emplace, tmp_path: Path, change: tuple[str, str], said: str) -> None:
    (tmp_path / "given").write_text(PIPELINE.replace(*change))
    done = emplace_here("convert", "torcheasyrec", "given")
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize(("converter", "text"), [(from_hugectr_script, SCRIPT), (from_torcheasyrec, PIPELINE)])
def test_whatever_stands_there_is_converted_or_refused(converter: Callable[[str, str], Converted], text: str) -> None:
    ends = {"read": 0, "refused": 0}
    for seed in range(150):
        given = mutated(random.Random(seed), text).decode("utf-8", "replace")
        try:
            from_data({"local_batch_size": 1} | converter(given, "given").data, ModelSpec, source="given")
            ends["read"] += 1
        except InvalidDocument:
            ends["refused"] += 1
    assert min(ends.values()) > 20
