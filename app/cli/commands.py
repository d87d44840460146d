"""The commands, put together. Each is imported when it is asked for: help of all needs none of them."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

LISTED = {
    "models": ("catalog:models", "List the built-in models, or print one as YAML."),
    "hosts": ("catalog:hosts", "List the built-in hosts, or print one as YAML ('local' is this machine)."),
    "plan": ("plan:plan", "Decide where each table of MODEL lives on HOST, and prove how good that is."),
    "check": ("check:check", "Does each MODEL fit each HOST, within the budgets?"),
    "sweep": ("sweep:sweep", "Plan MODEL anew at every point of a grid over hosts and values."),
    "size": ("size:size", "How many servers MODEL needs on each host to be trained fast enough."),
    "recommend": ("recommend:recommend", "Rank hosts, and places for the tables on them, for MODEL."),
    "overview": (
        "overview:overview",
        "Show how utilisation, servers, hash sizes, feature lengths and prediction errors are distributed over many jobs.",
    ),
    "batch": ("batch:batch", "Plan MODEL at several batch sizes: where throughput saturates, and which batch reaches a quality first."),
    "noise": ("noise:noise", "Measure the gradient-noise scale of a small click task that is trained here."),
    "retune": ("retune:retune", "Tune the learning rate again after a change of the batch, on a small click task that is trained here."),
    "audit": ("audit:audit", "Re-derive coverage, capacity and times of a plan; name every violation."),
    "diff": ("diff:diff", "Show what changed from plan A to plan B: the question, the placement, bytes to move, predicted time."),
    "import": ("imports:import_torchrec", "Price a TorchRec plan that was made elsewhere, and prove how far it is from the best at most."),
    "profile": (
        "profile:profile",
        "Measure this machine's lookups, collectives and dense layers, and keep the cost model for 'emplace plan --host local'.",
    ),
    "run": ("run:run", "Train under PLAN on this machine, verify what ran, and show predicted beside measured."),
    "asynchronous": (
        "asynchronous:asynchronous",
        "Train a small asynchronous fleet on this machine: throughput beside the queueing model's, loss, staleness, quality.",
    ),
    "trace": (
        "trace:trace",
        "Measure how many ids each feature carries and how lookups spread over each table's rows; print the model with both.",
    ),
    "calibrate": ("calibrate:calibrate", "Print the software stack under which the plan lasts as long as it was measured to."),
    "describe": ("describe:describe", "Print the model document of a TorchRec module: its tables, optimizers, and dense layers."),
    "convert": (
        "convert:convert",
        "Print the model document of a configuration that another project reads; stderr names what is not carried over.",
    ),
    "schema": ("schema:schema", "Print the JSON Schema of a model, a host or emplace.toml, for editors."),
    "serve": ("service:serve", "Serve the API, the dashboard and a worker."),
    "worker": ("service:worker", "Add a worker on the database of EMPLACE_DATABASE_URL."),
    "keys": ("keys:keys", "Make, list or revoke the keys by which the service on the database of EMPLACE_DATABASE_URL knows who asks."),
    "doctor": ("doctor:doctor", "Say what this machine lacks: compiled functions, packages, the service's database, cores, memory."),
}
"""Where each command is, and the first line of its help."""


class _Commands(MutableMapping[str, Any]):
    """The commands by name, each made when it is looked up."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            module, _, function = LISTED[name][0].partition(":")
            alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
            alone.command(name)(getattr(import_module(f"emplace.app.cli.{module}"), function))
            self._made[name] = typer.main.get_command(alone)
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(LISTED)

    def __len__(self) -> int:
        return len(LISTED)


class _Listed(TyperGroup):
    """A group whose help says what `LISTED` does."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = cast("Any", _Commands())

    def list_commands(self, _: Any) -> list[str]:
        return list(LISTED)

    def format_commands(self, _: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, said) for name, (_, said) in LISTED.items()])


cli = typer.Typer(
    name="emplace",
    cls=_Listed,
    help="Decide where the embedding tables of a recommendation model live, prove how good the decision is, and check it by running it.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        from emplace.app.cli.output import print_text

        print_text(f"emplace {version('emplace')}\n")
        raise typer.Exit


@cli.callback()
def _root(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")] = False,
) -> None:
    pass
