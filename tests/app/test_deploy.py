"""The files that put the service into containers name what there is. No engine runs them here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import typer
import yaml

from emplace.app.cli.commands import cli
from emplace.app.settings import Settings

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
OBJECTS = list(yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text()))
DOCKERFILE = (ROOT / "Dockerfile").read_text()
SETTINGS = {f"EMPLACE_{name.upper()}" for name in Settings.model_fields}


def containers() -> list[dict[str, Any]]:
    return [each for thing in OBJECTS if thing["kind"] == "Deployment" for each in thing["spec"]["template"]["spec"]["containers"]]


def test_every_setting_and_every_option_is_one() -> None:
    texts = [path.read_text() for path in (ROOT / "deploy").glob("*.yaml")]
    named = {name for text in (*texts, DOCKERFILE) for name in re.findall(r"^ *[^#\n]*?(EMPLACE_[A-Z_]+)", text, re.MULTILINE)}
    assert len(named) >= 4
    assert named <= SETTINGS
    commands = typer.main.get_command(cli).commands  # type: ignore[attr-defined]
    started = [re.findall(r'"([^"]+)"', line) for line in re.findall(r"^CMD (\[.*\])", DOCKERFILE, re.MULTILINE)]
    for name, *arguments in [*started, *(each["args"] for each in containers())]:
        options = {option for parameter in commands[name].params for option in parameter.opts}
        assert {argument for argument in arguments if argument.startswith("--")} <= options


def test_images_and_probes_are_there() -> None:
    targets = set(re.findall(r"^FROM \S+ AS (\S+)", DOCKERFILE, re.MULTILINE))
    built = {service["build"]["target"]: service["image"] for service in COMPOSE["services"].values() if "build" in service}
    assert set(built) <= targets
    assert {each["image"] for each in containers()} == set(built.values())
    assert "execute" not in DOCKERFILE[: DOCKERFILE.index("FROM build AS build-worker")].split("FROM python:3.11-slim AS build")[1]
    [api] = [each for each in containers() if each["name"] == "api"]
    assert {api[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")} == {"/healthz", "/readyz"}
    copied = set(re.findall(r"^COPY (\w+) \1$", DOCKERFILE, re.MULTILINE))
    assert {path.name for path in (ROOT / "emplace").iterdir() if path.is_symlink()} <= copied
