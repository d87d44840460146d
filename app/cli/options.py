"""Arguments and options that several commands share. Nothing heavy is imported here: `emplace check --help` needs all of it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from emplace.runtime.files import refuse_unwritable


class OutputFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class SpecFormat(StrEnum):
    YAML = "yaml"
    JSON = "json"


class CheckFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    SARIF = "sarif"
    GITHUB = "github"
    MARKDOWN = "markdown"
    GITLAB = "gitlab"


LARGEST_SEED = 2**31 - 1

Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the template 'suite', such as sparse=64; repeat it.")
]
Host = Annotated[str, typer.Option("--host", metavar="HOST", help="A built-in host, a host file, or 'local': this machine.")]
Nodes = Annotated[int | None, typer.Option("--nodes", help="Nodes to use. Default: all that the host has.")]
Ranks = Annotated[int | None, typer.Option("--ranks", help="Trainer processes. Default: one per device.")]
Steps = Annotated[
    int | None, typer.Option("--steps", help="Measured training steps, after warm-up. Default: as many as take 3 s, from 30 to 200.")
]
Tiers = Annotated[
    str | None,
    typer.Option("--tiers", metavar="hbm,ddr,cpu,remote", help="Where tables may live. Default: every tier of the host but cpu."),
]
HbmReserve = Annotated[
    str | None, typer.Option("--hbm-reserve", metavar="SHARE|SIZE", help="Keep this much of each device's HBM free too: 5% or 2GiB.")
]
DdrReserve = Annotated[
    str | None, typer.Option("--ddr-reserve", metavar="SHARE|SIZE", help="Keep this much of each node's system memory free too.")
]
TimeLimit = Annotated[
    float | None,
    typer.Option("--time-limit", metavar="SECONDS", help="Answer within this time from the start of the solve, everything counted."),
]
WorkLimit = Annotated[
    float | None,
    typer.Option("--work-limit", metavar="SECONDS", help="Stop after this much counted work: the same answer on any machine."),
]
Seed = Annotated[int | None, typer.Option("--seed", help="Same question, same seed, same plan. Default: 0.")]
CostModelFile = Annotated[
    Path | None,
    typer.Option("--cost-model", metavar="FILE", help="Price with this cost model instead of the one measured here or the datasheet's."),
]
StackName = Annotated[
    str | None,
    typer.Option("--stack", metavar="STACK", help="Price datasheet rates under this software stack: a built-in name or a file."),
]
Format = Annotated[OutputFormat, typer.Option("--format", help="What to print.")]


def _writable(path: Path | None) -> Path | None:
    if path is not None:
        refuse_unwritable(path)
    return path


Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        callback=_writable,  # before the work, which a result that can't be written would waste
        help="Also write the result to this file; its folder is made where it is missing.",
    ),
]
