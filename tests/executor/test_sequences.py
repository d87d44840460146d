"""Models with several modules, pooled and not, train under their plans, and every verdict holds."""

from __future__ import annotations

from typing import Any

import pytest
from torchrec.modules.embedding_configs import DataType as TorchRecDataType

import emplace
from emplace.app.importing import import_plan
from emplace.executor.emulation import emulated_plan, refuse_impossible
from emplace.executor.errors import NotRunnableHere
from emplace.executor.export import to_torchrec
from emplace.executor.imported import TheirPlan
from emplace.executor.launch import Launch
from emplace.executor.refusal import refuse_foreign
from emplace.executor.run import run_plans
from emplace.placement.audit import audit
from emplace.placement.catalog import builtin_host
from emplace.placement.errors import InvalidDocument
from emplace.placement.host import HostSpec
from emplace.placement.measurement import Measurement
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Plan
from emplace.placement.reading import from_data
from emplace.placement.stages import Stage
from emplace.runtime.sharding_plan import sharding_plan
from tests.executor.plans import Layout, build_plan, column_wise, data_parallel, row_wise, table_wise

pytestmark = pytest.mark.torch

RANKS = 2
PROFILE = {"path": "sparse.profile"}
HISTORY = {"path": "sparse.history", "pooling": "none"}
IN_HALF = {"forward_precision": "fp16", "backward_precision": "fp16"}


def mixed_model(name: str, *modules: dict[str, Any], columns: int = 64, local_batch_size: int = 512) -> ModelSpec:
    """Two pooled tables and two sequences; one of them has a long and a short feature."""
    profile, history = ({"module": module["path"]} for module in modules)
    tables = [
        {"name": "user", "num_embeddings": 20_000, "features": [{"name": "user", "length": {"fixed": 1}}]} | profile,
        {"name": "item", "num_embeddings": 10_000, "features": [{"name": "liked", "length": {"poisson": 4}}]} | profile,
        {
            "name": "page",
            "num_embeddings": 30_000,
            "access": {"zipf": 1.05},
            "features": [
                {"name": "viewed", "length": {"poisson": 40}},
                {"name": "bought", "length": {"poisson": 0.7}},
            ],
        }
        | history,
        {"name": "shop", "num_embeddings": 5_000, "features": [{"name": "shops", "length": {"poisson": 5}}]} | history,
    ]
    data = {
        "schema_version": 1,
        "name": name,
        "local_batch_size": local_batch_size,
        "dense_features": 13,
        "bottom_mlp": [64, columns],
        "top_mlp": [64, 1],
        "interaction": "cat",
        "optimizer": "rowwise_adagrad",
        "modules": list(modules),
        "tables": [{"embedding_dim": columns} | table for table in tables],
    }
    return from_data(data, ModelSpec, source="mixed")


def by_frequency(model: ModelSpec) -> ModelSpec:
    """With the ids of `page` so that its first block of rows is hot."""
    tables = [table.model_copy(update={"ids": "by_frequency"}) if table.name == "page" else table for table in model.tables]
    return model.model_copy(update={"tables": tuple(tables)})


def layouts(model: ModelSpec, page: str) -> dict[str, Layout]:
    user, item, pages, shop = model.tables
    of_pages = {"table_wise": table_wise(pages, 0), "row_wise": row_wise(pages, [0, 1]), "column_wise": column_wise(pages, [1, 0])}
    return {"user": data_parallel(user, RANKS), "item": column_wise(item, [1, 0]), "page": of_pages[page], "shop": table_wise(shop, 1)}


def plans(here: HostSpec) -> list[Plan]:
    models = [
        (mixed_model("means", PROFILE | {"pooling": "mean"}, HISTORY | {"column_width": 32}), "column_wise"),
        (by_frequency(mixed_model("weighted", PROFILE | {"weighted": True}, HISTORY)), "row_wise"),
    ]
    made = [build_plan(model, here, layouts(model, page), ranks=RANKS) for model, page in models]
    half = mixed_model("half", PROFILE | {"qcomm": IN_HALF}, HISTORY | {"qcomm": {"forward_precision": "fp16"}})
    reduced = layouts(half, "row_wise") | {"user": row_wise(half.tables[0], [0, 1])}
    return [*made, build_plan(half, here, reduced, ranks=RANKS)]


@pytest.fixture(scope="module")
def measured(here: HostSpec, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Plan, Measurement]]:
    """What several modules train under, and the plan of one sequence, in one launch."""
    one = one_sequence()
    made = [*plans(here), build_plan(one, here, {"page": table_wise(one.tables[0], 0)}, ranks=RANKS)]
    launch = Launch(steps=1, seed=7, workdir=tmp_path_factory.mktemp("sequences"), timeout_s=240)
    return list(zip(made, run_plans(made, launch), strict=True))


def test_pooled_tables_and_sequences_in_one_model(measured: list[tuple[Plan, Measurement]]) -> None:
    made, measurements = zip(*measured[:3], strict=True)
    for measurement in measurements:
        assert [verdict for verdict in measurement.verdicts if not verdict.passed and verdict.name != "throughput"] == []
        assert set(measurement.ranks[0].stages_us) == set(Stage)
    errors = [next(verdict.detail for verdict in each.verdicts if verdict.name == "numerics") for each in measurements]
    assert "0.001 is allowed" in errors[0]
    assert "0.05 is allowed" in errors[2]
    # The hot block of `page` makes rank 0 the fuller one, though rank 1 has all of `shop`.
    assert [hot.rank for hot in made[1].hot_ranks or ()] == [0]
    peaks, predicted = _peaks(made[1], measurements[1])
    assert peaks[0] > peaks[1]
    assert peaks[0] == pytest.approx(predicted[0], abs=16 * 2**20)  # what a process takes besides, and its allocator


def _peaks(plan: Plan, measurement: Measurement) -> tuple[list[int], list[int]]:
    """(measured, predicted) bytes of each rank."""
    return [each.peak_bytes for each in measurement.ranks], [each.ddr_bytes for each in plan.ranks]


def one_sequence() -> ModelSpec:
    """60,000 ids of its own for each of two ranks: vectors of 31 MB."""
    table = {"name": "page", "num_embeddings": 30_000, "embedding_dim": 128, "features": [{"name": "viewed", "length": {"fixed": 40}}]}
    data = {"schema_version": 1, "name": "one", "local_batch_size": 1500, "dense_features": 4, "bottom_mlp": [8, 128], "top_mlp": [8, 1]}
    data |= {"interaction": "cat", "optimizer": "rowwise_adagrad", "modules": [HISTORY], "tables": [table]}
    return from_data(data, ModelSpec, source="one")


def test_peaks_of_a_rank_that_has_all_of_a_sequence_and_of_one_that_has_none(measured: list[tuple[Plan, Measurement]]) -> None:
    """The one holds all vectors twice, and gradients of all rows; the other its own vectors, and their gradients."""
    peaks, predicted = _peaks(*measured[3])
    assert peaks == pytest.approx(predicted, rel=0.05, abs=6 * 2**20)


def test_a_plan_is_exported_and_imported_by_module(here: HostSpec) -> None:
    plan = plans(here)[0]
    exported = to_torchrec(plan)
    assert {path: list(tables) for path, tables in exported["plan"].items()} == {
        "sparse.profile": ["user", "item"],
        "sparse.history": ["page", "shop"],
    }
    theirs = from_data(exported, TheirPlan, source="theirs")
    imported = import_plan(theirs, "theirs", plan.question.model, here, plan.question.options)
    assert imported.tables == plan.tables
    exported["plan"]["sparse.profile"]["page"] = exported["plan"]["sparse.history"].pop("page")
    with pytest.raises(InvalidDocument, match=r"the model has the table page in its module sparse\.history"):
        import_plan(from_data(exported, TheirPlan, source="theirs"), "theirs", plan.question.model, here, plan.question.options)


def test_what_vectors_are_put_out_in_is_exported(here: HostSpec) -> None:
    model = mixed_model("half", PROFILE, HISTORY | {"output_data_type": "fp16"})
    exported = to_torchrec(build_plan(model, here, layouts(model, "row_wise"), ranks=RANKS))
    [tables] = sharding_plan({"sparse.history": exported["plan"]["sparse.history"]}).plan.values()
    assert {sharding.output_dtype for sharding in tables.values()} == {TorchRecDataType.FP16}
    assert "output_dtype" not in exported["plan"]["sparse.profile"]["user"]


@pytest.mark.parametrize(
    ("history", "reason"),
    [
        (
            {"index_dedup": True},
            "index_dedup runs on CUDA only: FBGEMM's jagged_unique_indices has no CPU kernel; module sparse.history has it",
        ),
        ({"output_data_type": "bf16"}, "vectors are put out in fp32 on CPUs; module sparse.history says bf16"),
        ({"qcomm": {"backward_precision": "bf16"}}, "gloo sends vectors in fp32 and fp16; module sparse.history says bf16 in its qcomm"),
        ({"path": "dense.history"}, "dense is where the model that runs here has its dense layers: move the module dense.history"),
    ],
)
def test_modules_that_can_not_run_here_are_refused(history: dict[str, Any], reason: str, here: HostSpec) -> None:
    model = mixed_model("refused", PROFILE, HISTORY | history)
    with pytest.raises(NotRunnableHere, match=reason):
        refuse_foreign(build_plan(model, here, layouts(model, "row_wise"), ranks=RANKS), here)


def test_what_an_emulation_of_sequences_stands_in_for() -> None:
    host = builtin_host("dgx-h100")
    qcomm = {"forward_precision": "fp8", "backward_precision": "bf16"}
    model = mixed_model("elsewhere", PROFILE, HISTORY | {"index_dedup": True, "output_data_type": "bf16", "qcomm": qcomm})
    plan = build_plan(model, host, layouts(model, "row_wise"), ranks=RANKS)
    refuse_impossible(plan)
    history = emulated_plan(plan).question.model.module_of(model.tables[2])
    assert (history.path, history.pooling, history.index_dedup, history.output_data_type) == ("sparse.history", "none", False, "fp32")
    assert history.sent_in.to_data() == IN_HALF
    replicated = build_plan(model, host, layouts(model, "row_wise") | {"page": data_parallel(model.tables[2], RANKS)}, ranks=RANKS)
    with pytest.raises(NotRunnableHere, match="sequences that are data_parallel can't be emulated: page"):
        refuse_impossible(replicated)


def test_sequences_are_not_replicated_on_cpus(here: HostSpec) -> None:
    """FBGEMM's dense kernel would pool them."""
    model = mixed_model("replicated", PROFILE, HISTORY)
    replicated = {"page": data_parallel(model.tables[2], RANKS)}
    findings = audit(build_plan(model, here, layouts(model, "row_wise") | replicated, ranks=RANKS))
    assert any("so a table that is not pooled can't be data_parallel" in finding.what for finding in findings)
    assert all(table.sharding_type != "data_parallel" for table in emplace.plan(model, here, ranks=RANKS, work_limit=0.5).tables[2:])
