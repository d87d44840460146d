"""The pages say what is there: links lead somewhere, and commands and options exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from emplace.app.cli.commands import cli

ROOT = Path(__file__).parents[2]
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


@pytest.mark.parametrize("name", ["README.md", "docs/quick-start.md", "docs/ci.md"])
def test_commands_and_options_exist(name: str) -> None:
    text = (ROOT / name).read_text()
    commands = set(re.findall(r"(?:`|^ +(?:- run: )?)emplace ([a-z]+)", text, re.MULTILINE))
    assert commands <= set(getattr(typer.main.get_command(cli), "commands", {}))
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - ELSEWHERE <= _options()
