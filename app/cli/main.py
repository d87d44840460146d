"""The `emplace` command: its entry point, and what becomes of every error.

Exit codes: 0 yes; 1 a proven no; 2 bad input or a tool error; 3 undecided within the limit; 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from types import FrameType
from typing import Annotated

import typer
from typer.exceptions import TyperException

from app.cli import audit, catalog, check, diff, plan, profile, run, service
from placement.errors import EmplaceError

BAD_INPUT, INTERRUPTED, TERMINATED, BROKEN_PIPE = 2, 130, 143, 141

cli = typer.Typer(
    name="emplace",
    help="Decide where the embedding tables of a recommendation model live, prove how good the decision is, and check it by running it.",
    no_args_is_help=True,
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
cli.command("profile")(profile.profile)
cli.command("run")(run.run)
cli.command("serve")(service.serve)
cli.command("worker")(service.worker)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"emplace {version('emplace')}")
        raise typer.Exit


@cli.callback()
def _root(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line and exit; bad input never shows a traceback."""
    sys.exit(exit_code(sys.argv[1:]))


def exit_code(arguments: list[str]) -> int:
    """Run one command line and say how it ended."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        code = cli(arguments, prog_name="emplace", standalone_mode=False)
        sys.stdout.flush()
        return int(code or 0)
    except TyperException as error:
        print(f"emplace: {error.format_message()}\nTry 'emplace --help' or 'emplace COMMAND --help'.", file=sys.stderr)
        return BAD_INPUT
    except EmplaceError as error:
        print(f"emplace: {error}", file=sys.stderr)
        return BAD_INPUT
    except (KeyboardInterrupt, typer.Abort):
        print("emplace: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except Exception:
        traceback.print_exc()
        print("emplace: this is a defect of Emplace, not of your input; please report it with the lines above", file=sys.stderr)
        return BAD_INPUT


def _stop(_signal: int, _frame: FrameType | None) -> None:
    """SIGTERM unwinds like Ctrl-C, so that child processes are ended and temporary files removed."""
    raise SystemExit(TERMINATED)
