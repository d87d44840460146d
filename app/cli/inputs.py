"""From what the command line names to documents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from emplace.placement.catalog import find_model, find_stack, model_file, template_settings
from emplace.placement.cost_model import CostModel
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.model import ModelSpec, Tier
from emplace.placement.plan import Plan, PlanOptions
from emplace.placement.reading import from_data, in_file, read_file
from emplace.placement.stack import Stack


def plan_options(
    *,
    nodes: int | None = None,
    ranks: int | None = None,
    tiers: str | list[str] | None = None,
    hbm_reserve: str | None = None,
    ddr_reserve: str | None = None,
    time_limit: float | None = None,
    work_limit: float | None = None,
    seed: int | None = None,
    objective: str | None = None,
    gap: float | None = None,
    start: Path | None = None,
    move_price: float | None = None,
) -> PlanOptions:
    """The options given on the command line; the rest keep their defaults. Raises InvalidDocument."""
    if (start is None) != (move_price is None):
        raise InvalidDocument("options", [BrokenRule("/start", "", "--start and --move-price go together")])
    given = {
        "nodes": nodes,
        "ranks": ranks,
        "tiers": _tiers(tiers) if isinstance(tiers, str) else tiers,
        "hbm_reserve": hbm_reserve,
        "ddr_reserve": ddr_reserve,
        "start": None if start is None else [table.to_data() for table in read_plan(start).tables],
        "move_price_us_per_gib": move_price,
        "objective": objective,
        "time_limit": time_limit,
        "work_limit": work_limit,
        "gap": gap,
        "seed": seed,
    }
    return from_data({key: value for key, value in given.items() if value is not None}, PlanOptions, source="options")


def _tiers(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in list(Tier):
            raise InvalidDocument(
                "options", [BrokenRule("/tiers", repr(name), f"must be one or more of {', '.join(Tier)}, separated by commas")]
            )
    return names


def read_model(name_or_path: str, settings: list[str] | None = None) -> ModelSpec:
    """A built-in model or a file; of a template the model with these settings. Raises UnknownName, InvalidDocument."""
    template = template_settings(name_or_path, settings or [])
    return find_model(name_or_path) if template is None else template.model()


def about_file(error: InvalidDocument, name_or_path: str) -> InvalidDocument:
    """What a question says of its model, said of the file that the model came from, with lines."""
    file = model_file(name_or_path)
    return in_file(error, file) if file is not None and error.source == "model" else error


@contextmanager
def naming_file(name_or_path: str) -> Iterator[None]:
    """Let what is wrong with a model name its file."""
    try:
        yield
    except InvalidDocument as error:
        raise about_file(error, name_or_path) from None


def read_plan(path: Path) -> Plan:
    """A plan that `emplace plan --format json` wrote. Raises InvalidDocument."""
    return read_file(path, Plan)


def read_stack(name_or_path: str | None) -> Stack | None:
    return None if name_or_path is None else find_stack(name_or_path)


def read_cost_model(path: Path | None) -> CostModel | None:
    return None if path is None else read_file(path, CostModel)
