"""The built-in models and hosts hold what was published of them, exactly."""

from __future__ import annotations

from importlib import resources

import numpy as np
import pytest
import yaml

from emplace.placement import catalog
from emplace.placement.catalog.draw import PUBLISHED, draw_yaml
from emplace.placement.datasheet import datasheet_cost_model
from emplace.placement.dense_part import dense_part
from emplace.placement.errors import UnknownName
from emplace.placement.host import HostSpec
from emplace.placement.memory import optimizer_state_bytes, row_bytes
from emplace.placement.model import ComputeKernel, ModelSpec, Optimizer, ShardingType, Tier
from emplace.placement.plan import PlanOptions
from emplace.placement.reading import from_data
from emplace.placement.topology import build_topology, host_tiers
from tests.placement.naive_plan import naive_plan

MODELS = [
    "criteo-kaggle",
    "criteo-terabyte",
    "dien",
    "din",
    "dlrm-dcnv2",
    "dlrmv4",
    "m1",
    "m2",
    "m3",
    "mtwnd",
    "ncf",
    "rm1",
    "rm2",
    "rm3",
    "suite",
    "wnd",
]
HOSTS = [
    "aws-g6-48xlarge",
    "aws-p4d",
    "big-basin-16g",
    "big-basin-32g",
    "cpu-dual-socket",
    "dgx-a100-40g",
    "dgx-a100-80g",
    "dgx-b200",
    "dgx-h100",
    "dgx-h200",
    "gb200-nvl72",
    "mi300x-8",
    "zion",
]


def table_gb(model: ModelSpec) -> float:
    return float(sum(table.num_embeddings * row_bytes(table.data_type, table.embedding_dim) for table in model.tables)) / 1e9


def with_state_gb(model: ModelSpec) -> float:
    state = sum(optimizer_state_bytes(model.optimizer, table.num_embeddings, table.embedding_dim) for table in model.tables)
    return table_gb(model) + float(state) / 1e9


def test_names() -> None:
    assert catalog.model_names() == MODELS
    assert catalog.host_names() == HOSTS
    with pytest.raises(UnknownName, match="m4: no built-in model of that name and no such file; built in are criteo-kaggle"):
        catalog.find_model("m4")
    with pytest.raises(UnknownName, match="local"):
        catalog.find_host("nowhere")


@pytest.mark.parametrize("name", MODELS)
def test_models_say_their_source_and_read_back(name: str) -> None:
    model = catalog.find_model(name)
    assert model.name == name
    assert model.source
    assert "ssumed" in (model.description or "")
    assert "ublished" in (model.description or "")
    again = from_data(yaml.safe_load(yaml.safe_dump(model.to_data())), ModelSpec, source=name)
    assert again.content_digest() == model.content_digest()
    assert dense_part(model).parameters > 0


@pytest.mark.parametrize("name", HOSTS)
def test_hosts_say_the_source_of_every_figure_and_read_back(name: str) -> None:
    host = catalog.find_host(name)
    data = host.to_data()
    again = from_data(yaml.safe_load(yaml.safe_dump(data)), HostSpec, source=name)
    assert again.content_digest() == host.content_digest()
    parts = {"node": data["node"], "remote_servers": data.get("remote_servers", {})}
    parts |= {f"node.devices.{device['kind']}": device for device in data["node"]["devices"]}
    figures = {f"{where}.{key}" for where, part in parts.items() for key in part if key not in ("devices", "kind", "type")}
    assert set(host.sources) == figures


@pytest.mark.parametrize("name", HOSTS)
def test_every_device_of_a_host_has_a_datasheet_cost(name: str) -> None:
    host = catalog.builtin_host(name)
    cost = datasheet_cost_model(host)
    for rank in build_topology(host, None, None, with_servers=True).ranks:
        assert cost.kernel(rank.device, ComputeKernel.FUSED) is not None
        assert cost.dense_cost(rank.device).per_flop_us > 0


@pytest.mark.parametrize(("name", "gb"), [("m1", 87.6), ("m2", 48.6), ("m3", 240.6)])
def test_production_models_hold_what_was_published(name: str, gb: float) -> None:
    model, published = catalog.builtin_model(name), PUBLISHED[name]
    sizes = [table.num_embeddings for table in model.tables]
    assert len(sizes) == model.num_features == published.tables
    assert sum(sizes) == published.tables * published.mean_hash_size
    assert (min(sizes), max(sizes)) == (30, 20_000_000)
    assert np.mean([table.pooling_factor for table in model.tables]) == pytest.approx(published.mean_lookups, abs=1e-9)
    assert round(table_gb(model), 1) == gb
    assert with_state_gb(model) == pytest.approx(2 * table_gb(model))
    assert model.optimizer is Optimizer.ADAGRAD
    assert model.dense_features == published.dense_features
    assert (model.bottom_mlp, model.top_mlp) == (published.bottom_mlp, published.top_mlp)
    lengths = np.sort([table.pooling_factor for table in model.tables])
    assert lengths[0] >= 1
    # a power law: few long features, and half of them far below the mean
    assert np.median(lengths) < 0.6 * np.mean(lengths) < 0.2 * lengths[-1]
    assert any(table.features[0].truncate for table in model.tables)


@pytest.mark.parametrize("name", list(PUBLISHED))
def test_production_models_are_drawn_again_byte_for_byte(name: str) -> None:
    stored = resources.files(catalog).joinpath("models", f"{name}.yaml").read_text(encoding="utf-8")
    assert draw_yaml(name) == stored


def test_published_shapes_of_the_criteo_models() -> None:
    kaggle, terabyte, dcn = (catalog.builtin_model(name) for name in ("criteo-kaggle", "criteo-terabyte", "dlrm-dcnv2"))
    assert [len(model.tables) for model in (kaggle, terabyte, dcn)] == [26, 26, 26]
    assert sum(table.num_embeddings for table in kaggle.tables) == 33_762_577
    assert sum(table.num_embeddings for table in terabyte.tables) == 187_767_399
    assert sum(table.num_embeddings for table in dcn.tables) == 204_184_588
    assert sum(table.pooling_factor for table in dcn.tables) == 214
    assert dcn.local_batch_size * 8 == 65_536
    assert with_state_gb(dcn) == pytest.approx(209.085, abs=1e-3)
    # the published widths of the top MLPs' inputs
    assert [dense_part(model).top[0][0] for model in (kaggle, terabyte)] == [367, 479]


def test_published_shapes_of_dlrmv4() -> None:
    model = catalog.builtin_model("dlrmv4")
    assert (len(model.tables), {table.embedding_dim for table in model.tables}) == (11, {512})
    assert sum(table.num_embeddings for table in model.tables) == 293_051_712
    assert table_gb(model) * 1e9 / 2**30 == pytest.approx(559, abs=0.5)
    assert {model.module_of(table).pooling for table in model.tables} == {"none"}


@pytest.mark.parametrize(
    ("name", "tables", "rows", "dim", "lookups", "top_input"),
    [
        ("rm1", 8, 32_000_000, 32, 80, 32 + 8 * 32),
        ("rm2", 32, 16_000_000, 64, 120, 64 + 32 * 64),
        ("rm3", 10, 20_000_000, 32, 20, 32 + 10 * 32),
        ("ncf", 4, 336_000, 64, 1, 4 * 64),
        ("wnd", 27, 27_000_000, 32, 1, 512 + 27 * 32),
        ("mtwnd", 43, 30_500_000, 32, 1, 512 + 43 * 32),
        ("din", 4, 21_100_000, 32, 3, 4 * 32),
        ("dien", 43, 30_500_000, 32, 1, 43 * 32),
    ],
)
def test_published_shapes_of_deeprecsys(name: str, tables: int, rows: int, dim: int, lookups: int, top_input: int) -> None:
    model = catalog.builtin_model(name)
    assert len(model.tables) == tables
    assert sum(table.num_embeddings for table in model.tables) == rows
    assert {(table.embedding_dim, table.pooling_factor) for table in model.tables} == {(dim, lookups)}
    assert dense_part(model).top[0][0] == top_input


def test_capacities_of_the_published_hosts() -> None:
    """M1 and M2 fit the GPU memory of one Big Basin of 32 GB, M3 does not; with system memory and servers it fits the smaller one too."""
    large, small = catalog.builtin_host("big-basin-32g"), catalog.builtin_host("big-basin-16g")
    assert host_tiers(small) == (Tier.HBM, Tier.DDR, Tier.CPU, Tier.REMOTE)
    hbm = {
        host.name: sum(rank.hbm_capacity_bytes for rank in build_topology(host, None, None, with_servers=False).ranks)
        for host in (large, small)
    }
    m1, m2, m3 = (with_state_gb(catalog.builtin_model(name)) * 1e9 for name in ("m1", "m2", "m3"))
    assert max(m1, m2) < hbm["big-basin-32g"] < m3
    everything = build_topology(small, None, None, with_servers=True)
    assert hbm["big-basin-16g"] + everything.node_ddr_capacity_bytes[0] < m3 < sum(everything.node_ddr_capacity_bytes)


@pytest.mark.parametrize("name", ["m1", "m2"])
def test_m1_and_m2_split_evenly_fit_one_big_basin(name: str) -> None:
    model, host = catalog.builtin_model(name), catalog.builtin_host("big-basin-32g")
    row_wise = (ShardingType.ROW_WISE, ComputeKernel.FUSED, None)
    plan = naive_plan(model, host, [row_wise] * len(model.tables), PlanOptions(tiers=(Tier.HBM,)))
    assert all(rank.hbm_bytes <= rank.hbm_capacity_bytes for rank in plan.ranks)
