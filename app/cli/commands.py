"""The commands, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from emplace.app.cli import audit, calibrate, catalog, check, describe, diff, doctor, imports, keys, plan, profile, run, service, trace
from emplace.app.cli.output import print_text

cli = typer.Typer(
    name="emplace",
    help="Decide where the embedding tables of a recommendation model live, prove how good the decision is, and check it by running it.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
cli.command("models")(catalog.models)
cli.command("hosts")(catalog.hosts)
cli.command("plan")(plan.plan)
cli.command("check")(check.check)
cli.command("audit")(audit.audit)
cli.command("diff")(diff.diff)
cli.command("import")(imports.import_torchrec)
cli.command("profile")(profile.profile)
cli.command("run")(run.run)
cli.command("trace")(trace.trace)
cli.command("calibrate")(calibrate.calibrate)
cli.command("describe")(describe.describe)
cli.command("serve")(service.serve)
cli.command("worker")(service.worker)
cli.command("keys")(keys.keys)
cli.command("doctor")(doctor.doctor)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print_text(f"emplace {version('emplace')}\n")
        raise typer.Exit


@cli.callback()
def _root(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")] = False,
) -> None:
    pass
