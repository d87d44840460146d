"""The gate as a CI machine runs it: installed from a wheel in an environment of its own, a new process for each question.

    python -m benchmarks.gate [--only PART] [--out FILE]

Parts: install, start, fits, budget, many. Every check is asked twice, first with an empty EMPLACE_HOME. `fits` is every built-in model on
every built-in host, `budget` the models of 26 tables with longest steps around those that are reached, `many` 50 models on 3 hosts in one
command. The wheel is built from this checkout; building it is not in its figures.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.json_lines import emit
from benchmarks.markdown import head
from emplace.placement.catalog import builtin_model, host_names, model_names

ROOT = Path(__file__).parents[1]
REACH = {
    "install": "20 s, 250 MB",
    "start": "0.15 s",
    "fits, first": "1.5 s, 200 MB",
    "fits, again": "1.0 s, 200 MB",
    "budget": "5 s",
    "many": "20 s on 2 cores",
}
HOSTS_AT_ONCE = ("big-basin-32g", "zion", "dgx-h100")
BUDGET_HOSTS = ("big-basin-32g", "dgx-a100-40g", "dgx-h100")
BUDGET_SHARES = (0.5, 0.97, 1.03, 2.0)
"""Longest steps, as parts of that of a plan."""
_STARTS, _MANY = 7, 50


@dataclass(frozen=True)
class Ran:
    """One process from its start to its end."""

    seconds: float
    peak_mb: float
    code: int
    output: str


@dataclass(frozen=True)
class Gate:
    """An environment that has the gate alone."""

    folder: Path

    def run(self, *arguments: str, home: Path | None = None, cwd: Path | None = None) -> Ran:
        """`emplace ARGUMENTS`, with what it keeps in `home`."""
        command = [str(self.folder / "bin" / "emplace"), *arguments]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "EMPLACE_HOME": str(home or self.folder / "home")}
        with tempfile.TemporaryFile() as output:
            started = time.perf_counter()
            process = subprocess.Popen(command, env=environment, cwd=cwd or self.folder, stdout=output, stderr=subprocess.STDOUT)
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - started
            output.seek(0)
            text = output.read().decode()
        return Ran(seconds, usage.ru_maxrss * 1024 / 1e6, os.waitstatus_to_exitcode(status), text)


def installed(folder: Path) -> tuple[Gate, dict[str, Any]]:
    """The gate in a new environment, and what installing it took: seconds and megabytes beyond an empty environment's."""
    wheels = folder / "wheels"
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(wheels), str(ROOT)], check=True)
    [wheel] = wheels.glob("emplace-*.whl")
    gate = Gate(folder / "gate")
    subprocess.run([sys.executable, "-m", "venv", str(gate.folder)], check=True)
    before, started = _megabytes(gate.folder), time.perf_counter()
    subprocess.run([str(gate.folder / "bin" / "pip"), "install", "-q", str(wheel)], check=True)
    seconds = time.perf_counter() - started
    return gate, {"part": "install", "seconds": seconds, "megabytes": _megabytes(gate.folder) - before}


def _megabytes(folder: Path) -> float:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir()) / 1e6


def start(gate: Gate, folder: Path) -> Iterator[dict[str, Any]]:
    del folder
    for option in ("--version", "--help"):
        times = [gate.run(option).seconds for _ in range(_STARTS)]
        yield {"part": "start", "what": option, "seconds": statistics.median(times), "slowest": max(times)}


def fits(gate: Gate, folder: Path) -> Iterator[dict[str, Any]]:
    for number, (model, host) in enumerate(product(model_names(), host_names())):
        home = folder / f"home{number}"
        for when in ("first", "again"):
            ran = gate.run("check", model, "--host", host, home=home)
            yield {"part": f"fits, {when}", "what": f"{model} on {host}", "seconds": ran.seconds, "peak_mb": ran.peak_mb, "code": ran.code}


def budget(gate: Gate, folder: Path) -> Iterator[dict[str, Any]]:
    """Longest steps that are far from what can be reached, and near."""
    models = [name for name in model_names() if len(builtin_model(name).tables) == 26]
    for number, (model, host) in enumerate(product(models, BUDGET_HOSTS)):
        reached_us = _reached_us(model, host)
        for share in BUDGET_SHARES:
            longest = ("--max-step-time-us", f"{share * reached_us:.1f}", "--stack", "hugectr-graph")
            ran = gate.run("check", model, "--host", host, *longest, home=folder / f"budget{number}")
            what = f"{model} on {host}, {share:g} of the step"
            yield {"part": "budget", "what": what, "seconds": ran.seconds, "peak_mb": ran.peak_mb, "code": ran.code}


def _reached_us(model: str, host: str) -> float:
    """The step of a plan, made in a process of its own: a child's memory counts from its parent's on."""
    command = [sys.executable, "-m", "emplace.app.cli", "plan", model, "--host", host, "--stack", "hugectr-graph", "--format", "json"]
    plan = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return float(plan["step_time_us"])


def many(gate: Gate, folder: Path) -> Iterator[dict[str, Any]]:
    """One command over models of 4 to 200 tables."""
    models = folder / "models"
    models.mkdir()
    for number in range(_MANY):
        (models / f"suite{number}.yaml").write_text(gate.run("models", "suite", "--set", f"sparse={4 * (number + 1)}").output)
    hosts = [word for host in HOSTS_AT_ONCE for word in ("--host", host)]
    ran = gate.run("check", "models/*.yaml", *hosts, cwd=folder, home=folder / "home-many")
    yield {
        "part": "many",
        "what": f"{_MANY} models on {len(HOSTS_AT_ONCE)} hosts",
        "seconds": ran.seconds,
        "peak_mb": ran.peak_mb,
        "code": ran.code,
    }


PARTS = {"start": start, "fits": fits, "budget": budget, "many": many}


def table(lines: list[dict[str, Any]]) -> Iterator[str]:
    """The slowest of each part, beside the reach."""
    yield head("part", "asked", "median", "slowest", "most memory", "exit codes", "reach")
    for part in dict.fromkeys(line["part"] for line in lines):
        own = [line for line in lines if line["part"] == part]
        seconds = [line["seconds"] for line in own]
        slowest = max(own, key=lambda line: line["seconds"])
        memory = max(line.get("peak_mb", line.get("megabytes", 0.0)) for line in own)
        codes = ", ".join(
            f"{code}: {sum(line.get('code') == code for line in own)}" for code in sorted({line.get("code", 0) for line in own})
        )
        where = f" ({slowest['what']})" if "what" in slowest and len(own) > 1 else ""
        yield (
            f"| {part} | {len(own)} | {statistics.median(seconds):.2f} s | {slowest['seconds']:.2f} s{where} "
            f"| {f'{memory:.0f} MB' if memory else ''} | {codes if 'code' in slowest else ''} | {REACH[part]} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, help="this part alone, after the installation")
    parser.add_argument("--out", type=Path, help="append JSON lines to this file")
    arguments = parser.parse_args()
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        gate, line = installed(Path(name))
        lines.append(line)
        emit(line, arguments.out)
        for part, measure in PARTS.items():
            for line in measure(gate, Path(name)) if arguments.only in (None, part) else ():
                lines.append(line)
                emit(line, arguments.out)
    print("\n".join(table(lines)))


if __name__ == "__main__":
    main()
