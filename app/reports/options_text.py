"""The options that a question sets, for people."""

from __future__ import annotations

from emplace.app.reports.figures import count
from emplace.placement.plan import PlanOptions

_UNITS = {"time_limit": " s", "move_price_us_per_gib": " us per GiB"}


def set_options(options: PlanOptions) -> dict[str, str]:
    """The options that are not at their defaults, by name: `{"ranks": "2", "time limit": "60 s"}`."""
    given = {name: getattr(options, name) for name, field in PlanOptions.model_fields.items() if getattr(options, name) != field.default}
    return {name.removesuffix("_us_per_gib").replace("_", " "): _spelled(name, value) for name, value in given.items()}


def options_line(options: PlanOptions) -> str:
    """The options that are set, in one line: `ranks 2, time limit 60 s`; empty where none is set."""
    return ", ".join(f"{name} {value}" for name, value in set_options(options).items())


def _spelled(name: str, value: object) -> str:
    if name == "start":
        assert isinstance(value, tuple)
        return count(len(value), "table")
    if isinstance(value, float):
        return f"{value:g}{_UNITS.get(name, '')}"
    return ", ".join(value) if isinstance(value, tuple) else str(value)
