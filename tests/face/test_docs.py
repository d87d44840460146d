"""docs/reference/python.md: it lists every public name of `emplace`, and no other."""

from __future__ import annotations

import inspect
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

import emplace
from emplace.placement.plan import PlanOptions

TEXT = (Path(__file__).parents[2] / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
CELLS = re.findall(r"^\| (`.*?`) \|", TEXT, re.MULTILINE)
FUNCTIONS = dict(re.findall(r"`(\w+)\((.*?)\)`", "\n".join(CELLS)))


def test_every_public_name_is_explained_and_no_other() -> None:
    named = {name for cell in CELLS for name in re.findall(r"`(\w+)", cell)}
    assert named == set(emplace.__all__)
    assert "`emplace.__version__`" in TEXT


@pytest.mark.parametrize("name", [name for name in emplace.__all__ if inspect.isfunction(getattr(emplace, name))])
def test_a_function_takes_what_the_page_says(name: str) -> None:
    shown = inspect.signature(eval(f"lambda {FUNCTIONS[name]}: None"))
    real = inspect.signature(getattr(emplace, name))
    assert [(each.name, each.kind, each.default) for each in shown.parameters.values()] == [
        (each.name, each.kind, each.default) for each in real.parameters.values()
    ]


def test_every_option_is_named() -> None:
    (options,) = re.findall(r"^- `options` are .*?(?=^- )", TEXT, re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"`(\w+)`", options)) - {"options"} == set(PlanOptions.model_fields)


def test_the_errors_are_children_of_one() -> None:
    (section,) = re.findall(r"^## Errors\n(.*)", TEXT, re.MULTILINE | re.DOTALL)
    for name in re.findall(r"^\| `(\w+)`", section, re.MULTILINE):
        assert issubclass(getattr(emplace, name), emplace.EmplaceError)


def test_the_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    quick = SimpleNamespace(plan=partial(emplace.plan, work_limit=0.1, gap=0.1), Monitor=emplace.Monitor)
    for block in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL):
        exec(block.replace("import emplace\n", ""), {"emplace": quick})
    printed = capsys.readouterr().out
    assert "optimal" in printed
    assert "bound" in printed
