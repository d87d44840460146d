"""A measured cost model as text: how well it predicts what it did not see."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from emplace.app.reports.figures import count, percent
from emplace.app.reports.tables import plain_table, section
from emplace.placement.cost_model import CostModel


def profile_view(model: CostModel) -> RenderableType:
    ranks = f", {count(model.ranks, 'rank')} side by side" if model.ranks else ""
    parts: list[RenderableType] = [Text(f"{model.host_name}: measured{ranks}", style="bold")]
    if model.residuals:
        parts.append(_residuals(model))
    if model.noise is not None:
        parts.append(Text(f"  repeat noise of this machine while measuring: {percent(model.noise)}"))
    software = ", ".join(f"{name} {version}" for name, version in model.software.items())
    parts.append(Text(f"  {software}"))
    return Group(*parts)


def _residuals(model: CostModel) -> RenderableType:
    table = plain_table("what", "points", "mean", "median", "worst")
    for residual in model.residuals:
        what = residual.what if residual.regime is None else f"  mostly {residual.regime}"
        table.add_row(what, str(residual.points), percent(residual.mape), percent(residual.median), percent(residual.worst))
    return section("error on points that were not fitted", table)
