"""`emplace check` by a config: found upward, overridden by what is more particular, its mistakes named with their line."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.app.cli.command import QUICK, Emplace, small_model, write_model

CONFIG = """\
models = ["models/*.json"]
hosts = ["big-basin-32g", "dgx-h100"]
ranks = 1
tiers = ["hbm"]
"""
LARGE = """
[[override]]
models = ["models/large.json"]
hosts = ["big-basin-32g"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two models, of which `large` fits one 80 GB device and not one of 32 GB."""
    (tmp_path / ".git").mkdir()
    models = tmp_path / "models"
    models.mkdir()
    write_model(models / "small.json")
    large = small_model(name="large")
    large["tables"][0]["num_embeddings"] = 150_000_000
    (models / "large.json").write_text(json.dumps(large))
    return tmp_path


def checked(emplace: Emplace, *arguments: str) -> tuple[int, dict[tuple[str, str], Any]]:
    done = emplace("check", *arguments, "--format", "json")
    report = json.loads(done.stdout)
    return done.returncode, {(check["source"], check["host"]): check for check in report["checks"]}


def test_a_config_says_what_is_checked(emplace: Emplace, folder: Path) -> None:
    (folder / "emplace.toml").write_text(CONFIG)
    code, checks = checked(emplace)
    assert code == 1
    assert {pair: check["fits"] for pair, check in checks.items()} == {
        ("models/large.json", "big-basin-32g"): False,
        ("models/large.json", "dgx-h100"): True,
        ("models/small.json", "big-basin-32g"): True,
        ("models/small.json", "dgx-h100"): True,
    }


def test_a_budget_in_watts_is_for_hosts_that_say_theirs(emplace_here: Emplace, folder: Path) -> None:
    """Node, all that is drawn without servers: 3,650 W and 10,200 W."""
    watts = 'hosts = ["dgx-h100", "zion"]\nmax_power_w = 10000\n'
    (folder / "emplace.toml").write_text(CONFIG.replace('hosts = ["big-basin-32g", "dgx-h100"]', watts).replace("models/*", "models/small"))
    done = emplace_here("check")
    assert done.returncode == 2
    assert "host zion: /node/power_w: is needed for a budget in watts" in done.stderr
    (folder / "emplace.toml").write_text(
        CONFIG.replace("models/*", "models/small") + '[[override]]\nhosts = ["dgx-h100"]\nmax_power_w = 10000\n'
    )
    code, checks = checked(emplace_here)
    assert code == 1
    verdicts = {host: (check["fits"], [budget["message"] for budget in check["budgets"]]) for (_, host), check in checks.items()}
    assert verdicts == {
        "big-basin-32g": (True, []),
        "dgx-h100": (False, ["broken: at most 10,000 W; its servers draw at least 10,200 W"]),
    }


def test_it_is_found_upward_and_models_that_are_given_are_those_that_are_checked(
    emplace_here: Emplace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "pyproject.toml").write_text("[tool.emplace]\n" + CONFIG.replace('"big-basin-32g", ', ""))
    monkeypatch.chdir(folder / "models")
    code, checks = checked(emplace_here, "small.json")
    assert (code, set(checks)) == (0, {("small.json", "dgx-h100")})


def test_none_is_looked_for_where_everything_is_given(emplace_here: Emplace, folder: Path) -> None:
    (folder / "emplace.toml").write_text(CONFIG + "max_step_time_us = 0.1\n")
    assert checked(emplace_here, "models/small.json", "--host", "dgx-h100")[0] == 0
    assert checked(emplace_here, "models/small.json", "--host", "dgx-h100", "--config", "emplace.toml")[0] == 1


def test_beyond_the_repository_none_is_looked_for(emplace_here: Emplace, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "emplace.toml").write_text(CONFIG)
    (folder / "models" / ".git").mkdir()
    monkeypatch.chdir(folder / "models")
    done = emplace_here("check")
    assert done.returncode == 2
    assert "MODEL and --host not given, and no emplace.toml here or above" in done.stderr


@pytest.mark.parametrize(
    ("added", "code"),
    [
        ("", 1),
        (LARGE + 'level = "warn"', 0),
        (LARGE + 'level = "off"', 0),
        (LARGE + 'level = "warn"' + LARGE + 'level = "error"', 1),
        (LARGE + "ranks = 2", 0),
        (LARGE.replace("[[override]]", "[[acknowledged]]") + 'rule = "capacity"\nreason = "a ticket"\nuntil = 2999-01-01', 0),
        (LARGE.replace("[[override]]", "[[acknowledged]]") + 'rule = "capacity"\nreason = "a ticket"\nuntil = 2020-01-01', 1),
        (LARGE.replace("[[override]]", "[[acknowledged]]") + 'rule = "max-step-time"\nreason = "a ticket"\nuntil = 2999-01-01', 1),
        (
            LARGE.replace("large", "small").replace("[[override]]", "[[acknowledged]]")
            + 'rule = "capacity"\nreason = "-"\nuntil = 2999-01-01',
            1,
        ),
    ],
)
def test_what_comes_of_a_no_is_what_the_last_that_matches_says(emplace_here: Emplace, folder: Path, added: str, code: int) -> None:
    (folder / "emplace.toml").write_text(CONFIG.replace(', "dgx-h100"', "") + added)
    assert checked(emplace_here, "models/large.json")[0] == code


def test_an_acknowledged_no_is_a_warning_that_says_so(emplace_here: Emplace, folder: Path) -> None:
    known = LARGE.replace("[[override]]", "[[acknowledged]]") + 'rule = "capacity"\nreason = "ticket 7"\nuntil = 2999-01-01'
    (folder / "emplace.toml").write_text(CONFIG.replace(', "dgx-h100"', "") + known)
    (result,) = json.loads(emplace_here("check", "models/large.json", "--format", "sarif").stdout)["runs"][0]["results"]
    assert result["level"] == "warning"
    assert result["message"]["text"].endswith("(acknowledged until 2999-01-01: ticket 7)")
    junit = emplace_here("check", "models/large.json", "--format", "junit").stdout
    assert 'failures="0"' in junit
    assert "ticket 7" in junit


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (CONFIG + '[[override]]\nlevel = "warm"\n', "emplace.toml:6: /override/0/level: must be 'off', 'warn' or 'error' (got 'warm')"),
        (CONFIG + "max_step_tme_us = 1\n", "emplace.toml:5: /max_step_tme_us: unknown key"),
        (CONFIG + "max_step_time_us = -1\n", "emplace.toml:5: /max_step_time_us: must be greater than 0"),
        (CONFIG.replace("*.json", "*.yaml"), "emplace.toml:1: /models/0: matches no file and is no built-in model (got 'models/*.yaml')"),
        (
            CONFIG + '[[override]]\nranks = 2\n[[override]]\n\nhosts = ["zion"]\n',
            "emplace.toml:9: /override/1/hosts/0: must be one of hosts",
        ),
        (CONFIG + '[[acknowledged]]\nrule = "capacity"\nuntil = 2999-01-01\n', "emplace.toml:5: /acknowledged/0/reason: is required"),
        (CONFIG.replace("models = [", "models = "), "emplace.toml: (document): is no TOML: "),
        ('hosts = ["dgx-h100"]\n', "emplace.toml:1: /models: is required"),
    ],
)
def test_a_mistake_is_named_with_its_line(emplace_here: Emplace, folder: Path, text: str, said: str) -> None:
    (folder / "emplace.toml").write_text(text)
    done = emplace_here("check")
    assert done.returncode == 2
    assert said in done.stderr


def test_in_a_project_file_it_is_named_from_the_files_beginning(emplace_here: Emplace, folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[project]\nname = "x"\n\n[tool.emplace]\n' + CONFIG + "nodes = 0\n")
    assert "pyproject.toml:9: /tool/emplace/nodes: must be greater than 0 (got 0)" in emplace_here("check").stderr


def test_init_writes_one_that_todays_models_keep(emplace: Emplace, folder: Path) -> None:
    asked = ("models/*.json", "--host", "big-basin-32g", "--ranks", "1", "--tiers", "hbm", *QUICK)
    assert emplace("check", "--init", *asked, "--margin", "20").returncode == 0
    text = (folder / "emplace.toml").read_text()
    config = tomllib.loads(text)
    assert (config["models"], config["hosts"], config["tiers"], config["ranks"]) == (["models/*.json"], ["big-basin-32g"], ["hbm"], 1)
    assert "20% on top" in text
    budgets = {override["models"][0]: override.get("max_step_time_us") for override in config["override"]}
    _, checks = checked(emplace, "models/small.json", "--host", "big-basin-32g", "--ranks", "1", "--tiers", "hbm", *QUICK, "--plan")
    step_us = checks["models/small.json", "big-basin-32g"]["step_time_us"]
    assert budgets == {"models/small.json": pytest.approx(1.2 * step_us, rel=1e-4), "models/large.json": None}
    watts = {override["models"][0]: override.get("max_power_w") for override in config["override"]}
    assert watts == {"models/small.json": pytest.approx(1.2 * 3650), "models/large.json": None}
    code, checks = checked(emplace)
    assert (code, {source: check["verdict"] for (source, _), check in checks.items()}) == (
        0,
        {"models/small.json": "fits", "models/large.json": "does_not_fit"},
    )
    again = emplace("check", "--init", *asked)
    assert again.returncode == 2
    assert "emplace.toml" in again.stderr
