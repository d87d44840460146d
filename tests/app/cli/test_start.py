"""What the gate needs to start: no torch, no web framework, no database; for an easy answer no scipy and no OR-Tools either."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from inspect import cleandoc
from pathlib import Path

import pytest
import typer

from emplace.app.cli.commands import LISTED, cli
from tests.app.cli.command import write_model

HEAVY = ("torch", "torchrec", "fbgemm_gpu", "fastapi", "sqlalchemy", "dbos", "alembic", "pandas")

WATCHED = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {heavy}:
            raise ImportError(f"{{name}} must not be imported here")
sys.meta_path.insert(0, Refuse())
from emplace.app.cli.main import exit_code
for command in {commands}:
    assert exit_code([command[0], sys.argv[1], "--host", "dgx-h100", "--ranks", "2", "--work-limit", "0.1", *command[1:]]) == 0, command
    assert not set(sys.modules) & set({heavy}), (command, sorted(set(sys.modules) & set({heavy})))
"""

EASY = """
import sys
from emplace.app.cli.main import exit_code
assert exit_code(["check", {model!r}, "--host", "big-basin-32g"]) == 0
print(*sorted({{name.partition(".")[0] for name in sys.modules}} & set({heavy})))
"""

COMMANDS = (["plan"], ["check", "--format", "json"], ["plan", "--format", "torchrec"])


def test_planning_checking_and_exporting_import_nothing_heavy(tmp_path: Path) -> None:
    """One process for all of them, in this order: what an earlier one must not import is looked for again after each."""
    model = write_model(tmp_path / "small.json")
    program = WATCHED.format(heavy=HEAVY, commands=COMMANDS)
    done = subprocess.run([sys.executable, "-c", program, str(model)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for said in ("small on dgx-h100", '"fits": true', '"world_size": 2'):
        assert said in done.stdout


@pytest.mark.parametrize("model", ["m1", "m3", "ncf"])
def test_an_easy_check_imports_no_numerics_but_what_packing_needs(model: str) -> None:
    program = EASY.format(model=model, heavy=(*HEAVY, "scipy", "ortools", "pandas"))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert "fits" in done.stdout
    assert done.stdout.splitlines()[-1] == ""


def test_the_version_is_there_before_anything_is_imported() -> None:
    program = f"import sys; from emplace.app.cli.main import exit_code; assert exit_code(['--version']) == 0; print(*sorted(set(sys.modules) & {{*{HEAVY!r}, 'numpy', 'pydantic', 'typer'}}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == [f"emplace {version('emplace')}", ""]


HEAVY_FOR_HELP = (*HEAVY, "numpy", "rich", "yaml", "emplace.placement.document", "emplace.planning")
"""pydantic alone is what typer makes use of to convert numbers."""


@pytest.mark.parametrize("arguments", [["--help"], [], ["check", "--help"]])
def test_help_imports_neither_documents_nor_numerics(arguments: list[str]) -> None:
    program = f"import sys; from emplace.app.cli.main import exit_code; exit_code({arguments!r}); print(*sorted(set(sys.modules) & {set(HEAVY_FOR_HELP)!r}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("Usage: emplace ")
    assert done.stdout.splitlines()[-1] == ""


def test_the_list_of_commands_says_what_each_ones_help_says_first() -> None:
    for name, (_, said) in LISTED.items():
        first, _, _ = cleandoc(typer.main.get_command(cli).commands[name].help).partition("\n\n")  # type: ignore[attr-defined]
        assert first == said, name


SMALL = """
import json, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("ortools", "scipy", "pandas"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
sys.stderr = sys.stdout
from emplace.app.cli.main import exit_code
for command in json.loads(sys.argv[1]):
    code = exit_code(command)
    print(f"exit {code} of {' '.join(command)}")
"""


def test_a_small_installation_answers_what_is_easy_and_says_what_it_lacks() -> None:
    """One process for all: what is missing is missed at each."""
    asked = {
        "check m3 --host big-basin-32g": (0, "m3 on big-basin-32g fits."),
        "check m3 --host big-basin-16g --tiers hbm": (1, "m3 on big-basin-16g does not fit."),
        "check m1 --host big-basin-32g --max-step-time-us 1": (1, "m1 on big-basin-32g fits but breaks max-step-time."),
        "check criteo-kaggle --host zion --plan --work-limit 1": (3, "criteo-kaggle on zion is undecided: this takes OR-Tools"),
        "plan criteo-kaggle --host zion --work-limit 1": (2, "this takes OR-Tools, which is not installed: pip install"),
    }
    commands = json.dumps([command.split() for command in asked])
    done = subprocess.run([sys.executable, "-c", SMALL, commands], capture_output=True, text=True, timeout=120)
    assert "Traceback" not in done.stdout
    rest = done.stdout
    for command, (code, said) in asked.items():
        output, ended, rest = rest.partition(f"exit {code} of {command}\n")
        assert ended, rest
        assert said in " ".join(output.split()), output
