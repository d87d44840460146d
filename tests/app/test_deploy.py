"""The files that put the service into containers name what there is. No engine runs them here."""

from __future__ import annotations

import json
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


def environment(container: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}


def test_a_password_stands_in_no_url_and_no_command() -> None:
    """It may hold any character, and a shell keeps what was typed."""
    for name in ("api", "worker"):
        given = COMPOSE["services"][name]["environment"] if name == "api" else COMPOSE["x-emplace"]["environment"]
        assert given["EMPLACE_DATABASE_URL"] == "postgresql://emplace@database/emplace"
        assert given["PGPASSWORD"] == COMPOSE["services"]["database"]["environment"]["POSTGRES_PASSWORD"]
    written = (ROOT / "deploy" / "kubernetes.yaml").read_text()
    assert "user:password@" not in written.replace("# postgresql://user:password@host/emplace", "")
    [overrides] = re.findall(r"--overrides='(.*)'", written)
    [keys] = json.loads(overrides)["spec"]["containers"]
    assert environment(keys) == {"EMPLACE_DATABASE_URL": environment(containers()[0])["EMPLACE_DATABASE_URL"]}


def test_a_worker_is_not_probed_by_another_program_of_its_own() -> None:
    """One that imports torch every few minutes is in the way of what is measured, and one that asks the database ends those that wait for it."""
    [worker] = [each for each in containers() if each["name"] == "worker"]
    assert not [key for key in worker if key.endswith("Probe")]


def test_the_api_is_reached_by_the_names_of_its_service() -> None:
    [service] = [thing["metadata"]["name"] for thing in OBJECTS if thing["kind"] == "Service"]
    [api] = [each for each in containers() if each["name"] == "api"]
    names = environment(api)["EMPLACE_ALLOWED_HOSTS"].split(",")
    assert {service, f"{service}.default", f"{service}.default.svc", f"{service}.default.svc.cluster.local"} <= set(names)
    assert COMPOSE["services"]["api"]["environment"]["EMPLACE_ALLOWED_HOSTS"] == "${EMPLACE_ALLOWED_HOSTS:-api}"


def test_pods_run_under_the_default_seccomp_profile() -> None:
    pods = [thing["spec"]["template"]["spec"] for thing in OBJECTS if thing["kind"] == "Deployment"]
    assert [pod["securityContext"]["seccompProfile"] for pod in pods] == [{"type": "RuntimeDefault"}] * 2
