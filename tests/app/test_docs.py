"""The documentation says what the code does: every route and every setting is described, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from emplace.app.settings import Settings
from emplace.app.web import access
from emplace.gate import Budgets
from emplace.placement.plan import PlanOptions

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_every_route_is_documented_and_every_documented_route_exists(api: httpx.Client) -> None:
    paths = api.get("/openapi.json").json()["paths"]
    served = {f"{method.upper()} {path}" for path, operations in paths.items() for method in operations}
    documented = set(re.findall(r"`((?:GET|POST|DELETE) /[^`\s]*)`", (DOCS / "reference" / "api.md").read_text()))
    assert documented == served


def test_every_option_and_every_budget_is_named() -> None:
    text = (DOCS / "reference" / "api.md").read_text()
    (options,) = re.findall(r"^`options` are .*?\n\n", text, re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"`(\w+)`", options)) - {"options"} == set(PlanOptions.model_fields)
    (budgets,) = re.findall(r"^\| budget \|.*?\n\n", text, re.MULTILINE | re.DOTALL)
    assert {name for cell in re.findall(r"^\| (`.*?`) \|", budgets, re.MULTILINE) for name in re.findall(r"`(\w+)`", cell)} == set(
        Budgets.model_fields
    )


def test_every_setting_is_documented() -> None:
    documented = set(re.findall(r"^\| `(EMPLACE_\w+)`", (DOCS / "reference" / "settings.md").read_text(), re.MULTILINE))
    assert documented == {f"EMPLACE_{name.upper()}" for name in Settings.model_fields}
    for name, field in Settings.model_fields.items():
        if isinstance(field.default, int | float):
            assert re.search(rf"`EMPLACE_{name.upper()}` \| {field.default:g} \|", (DOCS / "reference" / "settings.md").read_text())


def test_how_long_a_revoked_key_counts_is_documented() -> None:
    said = re.findall(r"emplace keys revoke .*# counts no more within (\d+) s$", (DOCS / "how-to" / "operate.md").read_text(), re.MULTILINE)
    assert said == [f"{access._FRESH_S:g}"]
