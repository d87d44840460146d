"""The pages say what is there: links lead somewhere, and commands and options exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from emplace.app.cli.commands import cli

ROOT = Path(__file__).parents[3]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
ELSEWHERE = {"--help", "--no-deps", "--build-arg", "--constraint", "--requirement"}
"""Options of pip, docker and typer."""


def _options() -> set[str]:
    command = typer.main.get_command(cli)
    commands = getattr(command, "commands", {}).values()
    return {option for each in [command, *commands] for parameter in each.params for option in parameter.opts}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text())
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []


def test_the_reference_lists_every_command_and_every_option() -> None:
    text = (ROOT / "docs" / "reference" / "cli.md").read_text()
    for name, section in re.findall(r"^## emplace ([a-z]+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL):
        command = getattr(typer.main.get_command(cli), "commands", {})[name]
        options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")} - {"--help"}
        assert set(re.findall(r"^\| `(--[a-z-]+)", section, re.MULTILINE)) == options, name
    assert set(re.findall(r"^## emplace ([a-z]+)", text, re.MULTILINE)) == set(getattr(typer.main.get_command(cli), "commands", {}))


def test_modules_that_pages_name_are_there() -> None:
    named = {(page, path) for page in PAGES for path in re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", page.read_text())}
    assert [(str(page), path) for page, path in sorted(named) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial/quick-start.md", "docs/how-to/gate.md"])
def test_commands_and_options_exist(name: str) -> None:
    text = (ROOT / name).read_text()
    commands = set(re.findall(r"(?:`|^ +(?:- run: )?)emplace ([a-z]+)", text, re.MULTILINE))
    assert commands <= set(getattr(typer.main.get_command(cli), "commands", {}))
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - ELSEWHERE <= _options()
