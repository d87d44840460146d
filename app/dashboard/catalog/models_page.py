"""The models that a question can name, and one of them: how its tables spread in size and use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from fastapi import APIRouter, Request, Response

from emplace.app.api.routes import catalog
from emplace.app.dashboard.charts.points import ChartAxis, ChartPoint, Curve, PointsChart, axis
from emplace.app.dashboard.rendering import show
from emplace.app.web.dependencies import MAX_PAGE, TheService
from emplace.placement.memory import weight_bytes
from emplace.placement.model import ModelSpec, Table
from emplace.placement.reading import from_data

router = APIRouter()

_CURVES = 8
_NAMED = 3


@dataclass(frozen=True)
class ModelPage:
    name: str
    description: str | None
    source: str | None
    facts: list[tuple[str, str]]
    weight_bytes: int
    sizes: PointsChart
    access: PointsChart | None
    even: int
    """Tables of which all rows are asked for alike."""


@router.get("/models")
async def models_page(request: Request, service: TheService, cursor: str | None = None) -> Response:
    """Built-in models, and those of stored plans."""
    found = await catalog.list_models(service, cursor, MAX_PAGE)
    return show(request, "catalog.html", {"kind": "models", "title": "Models", "items": found.items, "next": found.next})


@router.get("/models/{name}")
async def model_page(request: Request, name: str, service: TheService) -> Response:
    """One model, by its name or digest."""
    data = await catalog.get_model(name, service)
    model = await service.documents.run(from_data, data, ModelSpec, source=f"model {name}")
    return show(request, "model.html", await service.documents.run(_page, model))


def _page(model: ModelSpec) -> ModelPage:
    weights = sum(map(weight_bytes, model.tables))
    uneven = [table for table in model.tables if table.access != "uniform"]
    facts = [
        ("Tables", f"{len(model.tables):,}"),
        ("Rows", f"{sum(table.num_embeddings for table in model.tables):,}"),
        ("Sparse features", f"{model.num_features:,}"),
        ("Dense features", f"{model.dense_features:,}"),
        ("Examples of each rank", f"{model.local_batch_size:,}"),
        ("Bottom layers", " ".join(map(str, model.bottom_mlp)) or "none"),
        ("Top layers", " ".join(map(str, model.top_mlp))),
        ("Interaction", model.interaction.value),
        ("Optimizer", model.optimizer.value),
        ("Lookups of an example", f"{sum(table.pooling_factor for table in model.tables):,.1f}"),
    ]
    even = len(model.tables) - len(uneven)
    return ModelPage(model.name, model.description, model.source, facts, weights, sizes_chart(model), access_chart(uneven), even)


def sizes_chart(model: ModelSpec) -> PointsChart:
    """Hash size against mean length, of every table; the largest by weights are named."""
    largest = sorted(model.tables, key=lambda table: -table.num_embeddings * table.embedding_dim)[:_NAMED]
    return PointsChart(
        title="Hash size and mean length of each table",
        x=axis("rows", "count", [table.num_embeddings for table in model.tables], is_log=True),
        y=axis("mean ids of an example", "number", [table.pooling_factor for table in model.tables], is_log=True),
        points=tuple(ChartPoint(float(table.num_embeddings), table.pooling_factor, table.name) for table in model.tables),
        margins=True,
        named=frozenset(table.name for table in largest),
    )


def access_chart(tables: list[Table]) -> PointsChart | None:
    """Which share of lookups the hottest rows take; of many tables those with most lookups."""
    shown = sorted(tables, key=lambda table: -table.pooling_factor)[:_CURVES]
    if not shown:
        return None
    shares = np.geomspace(1e-6, 1.0, 60)
    curves = tuple(
        Curve(table.name, "access", tuple(zip(shares.tolist(), table.accesses.hit_rate(shares).tolist(), strict=True))) for table in shown
    )
    x = ChartAxis("share of the rows, hottest first", "share", 1e-6, 1.0, is_log=True)
    y = ChartAxis("share of the lookups", "share", 0.0, 1.0)
    return PointsChart("How uneven access is", x, y, curves=curves)
