"""The pages say what is there: links lead somewhere, files and commands and options exist, and the reference is the command's own help."""

from __future__ import annotations

import re
from inspect import cleandoc
from pathlib import Path

import pytest
import typer

from emplace.app.cli.commands import cli

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
ROUTES_AND_POINTERS = {"v1", "docs", "plans", "model", "tables", "options"}
"""What stands first in paths that pages show: of the API and of documents."""
SOURCES = (
    "app",
    "benchmarks",
    "emplace",
    "examples",
    "executor",
    "hardware",
    "migrations",
    "placement",
    "profiler",
    "runtime",
    "solver",
    "studies",
    "tests",
)
ELSEWHERE = {"--help", "--no-deps", "--build-arg", "--constraint", "--requirement", "--depth", "--rm"}
"""Options of git, pip, docker and typer."""


def _options() -> set[str]:
    command = typer.main.get_command(cli)
    commands = getattr(command, "commands", {}).values()
    return {option for each in [command, *commands] for parameter in each.params for option in parameter.opts}


def _anchors(page: Path) -> set[str]:
    """What a heading is linked by: small letters, no punctuation, and hyphens for spaces."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert "://" in link or target.exists(), link
        assert not anchor or "://" in link or anchor in _anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_path_of_somebodys_machine_is_shown(page: Path) -> None:
    absolute = re.findall(r"(?<![\w/.)}~>*`-])/(\w+)/[\w./-]*", page.read_text())
    assert set(absolute) <= ROUTES_AND_POINTERS


def test_the_reference_lists_every_command_and_every_option() -> None:
    text = (ROOT / "docs" / "reference" / "cli.md").read_text()
    for name, section in re.findall(r"^## emplace ([a-z]+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL):
        command = getattr(typer.main.get_command(cli), "commands", {})[name]
        options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")} - {"--help"}
        assert set(re.findall(r"^\| `(--[a-z-]+)", section, re.MULTILINE)) == options, name
    assert set(re.findall(r"^## emplace ([a-z]+)", text, re.MULTILINE)) == set(getattr(typer.main.get_command(cli), "commands", {}))


@pytest.mark.parametrize("name", list(typer.main.get_command(cli).commands))  # type: ignore[attr-defined]
def test_the_reference_says_what_the_help_says(name: str) -> None:
    text = (ROOT / "docs" / "reference" / "cli.md").read_text()
    command = typer.main.get_command(cli).commands[name]  # type: ignore[attr-defined]
    section = re.search(rf"^## emplace {name}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section is not None
    arguments = [parameter for parameter in command.params if not parameter.opts[0].startswith("--")]
    assert f"\n    {' '.join(['emplace', name, *(argument.metavar for argument in arguments)])}\n" in section[1]
    assert cleandoc(command.help) in section[1]
    for parameter in command.params:
        if parameter.help and parameter.opts != ["--help"]:
            shown = next((option for option in parameter.opts if option.startswith("--")), parameter.metavar)
            row = rf"^\| `{re.escape(shown)}`.* \| {re.escape(parameter.help)}( Default: .*)? \|$"
            assert re.search(row, section[1], re.MULTILINE), shown


def test_files_and_folders_that_pages_name_are_there() -> None:
    a_path = r"`((?:[\w.-]+/)+(?:[\w-]+\.(?:py|md|yaml|html|svg))?)`"
    named = {(page, path) for page in PAGES for path in re.findall(a_path, page.read_text())}
    mine = [(page, path) for page, path in sorted(named) if path.split("/")[0] in (*SOURCES, "docs", "requirements")]
    assert len(mine) > 50
    assert [(str(page), path) for page, path in mine if not (ROOT / path).exists()] == []


def test_pages_that_the_code_names_are_there() -> None:
    texts = {path: path.read_text() for folder in SOURCES for path in (ROOT / folder).glob("**/*.py") if not path.is_symlink()}
    named = {(page, path) for path, text in texts.items() for page in re.findall(r"\bdocs/[\w/-]+\.(?:md|svg)", text)}
    assert len(named) > 10
    assert [(page, str(path)) for page, path in sorted(named) if not (ROOT / page).exists()] == []


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial/quick-start.md", "docs/how-to/gate.md"])
def test_commands_and_options_exist(name: str) -> None:
    text = (ROOT / name).read_text()
    commands = set(re.findall(r"(?:`|^ +(?:- run: )?)emplace ([a-z]+)", text, re.MULTILINE))
    assert commands <= set(getattr(typer.main.get_command(cli), "commands", {}))
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - ELSEWHERE <= _options()
