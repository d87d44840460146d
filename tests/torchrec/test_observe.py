"""What batches show of features: counted in bounded memory, the same in any order, and written into a model document."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torchrec import KeyedJaggedTensor

from emplace.executor.traces.measuring import measured_model
from emplace.executor.traces.opening import open_trace
from emplace.placement.access import ZipfAccess, access_distribution
from emplace.placement.errors import InvalidDocument
from emplace.placement.id_order import MeasuredOrder
from emplace.placement.lengths import PowerLaw, PowerLawLength
from emplace.placement.model import ModelSpec
from emplace.torchrec import Observation, Observer, describe, observe, read_fbgemm_reports
from tests.torchrec.models import config, ids, model, planner, sharders

pytestmark = pytest.mark.torch

ROWS = 1_000_000
ACCESS = access_distribution(ZipfAccess(zipf=1.05), ROWS)
LENGTHS = PowerLawLength(power_law=PowerLaw(mean=20, alpha=1.6, max=2000)).distribution()


def _batch(seed: int, features: Iterable[str] = ("clicks",), examples: int = 1000) -> KeyedJaggedTensor:
    rng = np.random.default_rng(seed)
    lengths = [LENGTHS.sample(rng, examples) for _ in features]
    values = ACCESS.sample(rng, sum(int(each.sum()) for each in lengths))
    return KeyedJaggedTensor(keys=list(features), values=torch.tensor(values), lengths=torch.tensor(np.concatenate(lengths)))


@pytest.mark.parametrize("rows", [100, 4096, 50_001])
def test_where_lookups_fall_is_measured_when_asked(rows: int) -> None:
    """Two batches on two ranks, the second with ids far beyond the first's."""
    low, high = np.arange(rows // 10), np.arange(rows)
    batches = [KeyedJaggedTensor(keys=["clicks"], values=torch.tensor(each), lengths=torch.tensor([len(each)])) for each in (low, high)]
    one, other = (observe([batch]) for batch in batches)
    spec = describe(model(config("page", rows, features=["clicks"])))
    assert one.merge(other).apply(spec).tables[0].ids is None
    seen = {each.apply(spec, with_order=True).tables[0].ids for each in (one.merge(other), other.merge(one), observe(batches))}
    [order] = seen
    assert isinstance(order, MeasuredOrder)
    parts = np.append(0.0, np.cumsum(order.measured))
    assert np.interp([0.1, 0.5], np.linspace(0, 1, len(parts)), parts) == pytest.approx([0.2 / 1.1, 0.6 / 1.1], abs=0.008)


def _spec(*features: str) -> ModelSpec:
    return describe(model(config("page", ROWS, features=features or ("clicks",))))


def _arrays(observation: Observation) -> Mapping[str, Any]:
    return {
        name: (each.accesses.ids.tolist(), each.accesses.times.tolist(), each.accesses.counters.tolist(), each.lengths.ids.tolist())
        for name, each in observation.features.items()
    }


def test_few_ids_are_counted_exactly_as_a_trace_is(tmp_path: Path) -> None:
    """Lengths and accesses of two features of a table, and of one of another."""
    rng = np.random.default_rng(3)
    keys, rows = ["me", "friends", "page-ids"], 5000
    lengths = torch.tensor(rng.integers(0, 9, (3, 400)))
    values = torch.tensor(np.minimum(rng.zipf(1.3, int(lengths.sum())), rows) - 1)
    torch.save((values, torch.cat([torch.zeros(1, dtype=torch.long), lengths.flatten().cumsum(0)]), lengths), tmp_path / "trace.pt")
    spec = describe(model(config("user", rows, features=keys[:2]), config("page", rows)))
    traced = measured_model(open_trace(tmp_path / "trace.pt", tmp_path), spec, lambda _: None, lambda _: None)
    observed = observe([KeyedJaggedTensor(keys=keys, values=values, lengths=lengths.flatten())]).apply(spec)
    assert observed.tables == traced.tables != spec.tables
    assert observed.source == f"{spec.source}; lengths and accesses observed in 1 batches"


@pytest.fixture(scope="module")
def watched() -> Observation:
    return observe(_batch(seed) for seed in range(20))


def test_many_ids_take_bounded_memory_and_predict_unique_rows(watched: Observation) -> None:
    """400,000 lookups of 1,000,000 rows; a batch has about 20,000."""
    clicks = watched.features["clicks"]
    accesses = clicks.accesses
    assert accesses.halvings >= 2
    assert sum(each.nbytes for each in (accesses.ids, accesses.times, accesses.counters)) <= 3 * 8 * 2**14
    [table] = watched.apply(_spec()).tables
    lookups = accesses.lookups / clicks.batches
    assert float(table.accesses.unique_rows(lookups)) == pytest.approx(clicks.unique_ids / clicks.batches, rel=0.03)
    for asked in (1_000, 10_000, 100_000, 400_000):
        assert float(table.accesses.unique_rows(asked)) == pytest.approx(float(ACCESS.unique_rows(asked)), rel=0.05)
    for share in (1e-5, 1e-4, 1e-3, 1e-2):
        assert float(table.accesses.hit_rate(share)) == pytest.approx(float(ACCESS.hit_rate(share)), abs=0.03)


def test_long_lengths_keep_mean_and_tail(watched: Observation) -> None:
    [table] = watched.apply(_spec()).tables
    lengths = table.features[0].lengths
    clicks = watched.features["clicks"]
    assert lengths.mean == pytest.approx(clicks.lengths.ids.sum() / clicks.lengths.examples.sum(), rel=0.005)
    for quantile in (0.5, 0.75, 0.9):
        assert lengths.quantile(quantile) == pytest.approx(LENGTHS.quantile(quantile), rel=0.15, abs=1)


def test_parts_add_up_to_the_whole_in_any_order(watched: Observation) -> None:
    first, second, third = (observe(_batch(seed) for seed in part) for part in (range(3), range(3, 4), range(4, 20)))
    orders = (first.merge(second, third), third.merge(second.merge(first)), second.merge(third).merge(first))
    assert all(_arrays(each) == _arrays(watched) for each in orders)
    assert {each.features["clicks"].unique_ids for each in orders} == {watched.features["clicks"].unique_ids}


def test_a_merge_has_the_features_of_both() -> None:
    both = observe([_batch(1, ["a"])]).merge(observe([_batch(2, ["b"])]))
    assert set(both.features) == {"a", "b"}


def test_outside_of_a_process_group_gathered_is_what_was_observed(watched: Observation) -> None:
    assert watched.gather() is watched


def test_a_file(watched: Observation, tmp_path: Path) -> None:
    watched.save(tmp_path / "seen.npz")
    assert Observation.load(tmp_path / "seen.npz").apply(_spec()) == watched.apply(_spec())
    (tmp_path / "text").write_text("a")
    with pytest.raises(InvalidDocument, match=r"text: \(document\): must be an observation that Observation\.save wrote"):
        Observation.load(tmp_path / "text")
    with pytest.raises(InvalidDocument, match=r"none: \(document\): can't be read: No such file"):
        Observation.load(tmp_path / "none")


@dataclass
class Sample:
    dense: torch.Tensor
    sparse: KeyedJaggedTensor


def test_a_share_of_the_batches_is_counted_while_all_go_by() -> None:
    observer = Observer(every=3)
    loader = [Sample(torch.zeros(2), ids(["a"], examples=10 + number)) for number in range(5)]
    for _ in range(2):
        assert list(observer.watch(loader)) == loader
    assert observer.observation.features["a"].batches == 4  # 0, 3; 6, 9
    assert observer.observation.features["a"].lengths.examples.sum() == 10 + 13 + 11 + 14


@pytest.mark.parametrize("hold", [lambda kjt: kjt, lambda kjt: (1, kjt), lambda kjt: {"x": [kjt]}, lambda kjt: Sample(torch.ones(1), kjt)])
def test_tensors_are_found_in_batches(hold: Any) -> None:
    assert set(observe([hold(ids(["a"], 3))]).features) == {"a"}


def test_so_many_at_most() -> None:
    assert observe((ids(["a"], 3) for _ in range(9)), every=2, most=3).features["a"].batches == 3


def _values(*numbers: int) -> KeyedJaggedTensor:
    return KeyedJaggedTensor(keys=["clicks"], values=torch.tensor(numbers), lengths=torch.tensor([len(numbers)]))


@pytest.mark.parametrize(
    ("batch", "named"),
    [
        ((torch.zeros(1), "text"), "has no KeyedJaggedTensor in it"),
        ((ids(["a"], 1), ids(["a"], 1)), "is a feature of several KeyedJaggedTensors of a batch.*got a"),
        (_values(3, -1), "has the id -1: ids must be whole numbers from 0 on"),
    ],
)
def test_batches_that_can_not_be_counted(batch: Any, named: str) -> None:
    with pytest.raises(InvalidDocument, match=named):
        observe([batch])


def test_what_does_not_fit_the_model() -> None:
    with pytest.raises(InvalidDocument, match=r"/page: no batch had this feature; observed are clicks.*other"):
        observe([_values(3)]).apply(_spec("clicks", "other"))
    with pytest.raises(InvalidDocument, match=r"/page: has 1,000,000 rows: observe ids as the table gets them.*1000000"):
        observe([_values(ROWS)]).apply(_spec())
    with pytest.raises(InvalidDocument, match="/every: must be at least 1"):
        Observer(every=0)


def test_a_feature_that_several_tables_look_up() -> None:
    spec = describe(model(config("user", features=["ids.of"]), config("page", features=["ids.of"])))
    observed = observe([ids(["ids.of"], 4, each=3)]).apply(spec)
    assert [table.features[0].length.model_dump() for table in observed.tables] == [{"fixed": 3}] * 2


def test_the_planner_plans_for_what_was_observed(watched: Observation) -> None:
    made = planner(observed=watched)
    made.plan(model(config("page", ROWS, features=["clicks"])), sharders())
    assert made.last_plan is not None
    assert made.last_plan.question.model.tables == watched.apply(made.last_plan.question.model).tables


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a real reporter, for a batch of two features."""
    from fbgemm_gpu.tbe.monitoring.bench_params_reporter import TBEBenchmarkParamsReporter

    folder = tmp_path_factory.mktemp("reports")
    batch = _batch(1, ["clicks", "likes"], examples=200)
    rows, columns = torch.tensor([ROWS, ROWS]), torch.tensor([8, 8])
    reporter = TBEBenchmarkParamsReporter(1, bucket=str(folder), path_prefix="run")
    reporter.report_stats(rows, columns, 0, batch.values(), batch.offsets())
    [path] = folder.glob("run/*.json")
    return path


def test_fbgemms_report(report: Path) -> None:
    spec = describe(model(config("page", ROWS, features=["clicks"]), config("post", ROWS, features=["likes"]), config("user")))
    clicks, likes, user = read_fbgemm_reports([report], ["clicks", "likes"]).apply(spec).tables
    batch = _batch(1, ["clicks", "likes"], examples=200).to_dict()
    for table, name in ((clicks, "clicks"), (likes, "likes")):
        ids_of_it = batch[name].values()
        assert table.features[0].lengths.mean == pytest.approx(len(ids_of_it) / 200, rel=1e-6)
        share_of_hottest = float(torch.bincount(ids_of_it).max()) / len(ids_of_it)
        assert float(table.accesses.hit_rate(1 / ROWS)) == pytest.approx(share_of_hottest)
    assert user == spec.tables[2]


def test_accesses_of_a_report_are_those_that_fbgemm_draws_of_it(report: Path) -> None:
    """Its fit of the rows beyond the hottest is rough; what is read from it is the same."""
    spec = describe(model(config("page", ROWS, features=["clicks", "likes"])))
    [table] = read_fbgemm_reports([report], ["clicks", "likes"]).apply(spec).tables
    access = json.loads(report.read_text())["indices_params_list"][1 if _mean(report, 1) > _mean(report, 0) else 0]
    hottest = torch.tensor(access["heavy_hitters"], dtype=torch.float64)
    drawn = torch.ops.fbgemm.tbe_generate_indices_from_distribution(hottest, access["zipf_q"], access["zipf_s"], ROWS, 50_000)
    assert float(table.accesses.unique_rows(50_000)) == pytest.approx(len(drawn.unique()), rel=0.02)


def _mean(report: Path, feature: int) -> float:
    return float(json.loads(report.read_text())["pooling_params"]["Ls"][feature])


def test_reports_that_do_not_fit(report: Path, tmp_path: Path) -> None:
    reports = read_fbgemm_reports([report], ["clicks", "gone"])
    with pytest.raises(
        InvalidDocument,
        match=r"(?s)1,000,000 rows, its table page has 70: report a TBE with whole.*got clicks.*no feature of the model.*got gone",
    ):
        reports.apply(describe(model(config("page", 70, features=["clicks"]))))
    with pytest.raises(InvalidDocument, match="1 features were named"):
        read_fbgemm_reports([report], ["clicks"])
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InvalidDocument, match=r"must be a report of FBGEMM 1\.8"):
        read_fbgemm_reports([tmp_path / "other.json"], ["clicks"])
    with pytest.raises(InvalidDocument, match="there is none"):
        read_fbgemm_reports([], ["clicks"])
