"""The options that a question sets, for people."""

from __future__ import annotations

from emplace.app.reports.figures import count
from emplace.placement.plan import DEFAULT_LIMIT_S, PlanOptions

_UNITS = {"time_limit": " s", "work_limit": " s", "move_price_us_per_gib": " us per GiB"}
_USUAL = PlanOptions(time_limit=DEFAULT_LIMIT_S)
"""What the service assumes where nothing is said."""


def set_options(options: PlanOptions) -> dict[str, str]:
    """The options that are not at the service's defaults, by name: `{"ranks": "2", "time limit": "60 s"}`."""
    every = {name: getattr(options, name) for name in PlanOptions.model_fields}
    given = {name: value for name, value in every.items() if value is not None and value != getattr(_USUAL, name)}
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
