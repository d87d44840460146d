"""The `emplace` command: its entry point, and what becomes of every error."""

from __future__ import annotations

import gc
import signal
import sys
import traceback
from importlib.metadata import version
from types import FrameType
from typing import TYPE_CHECKING

from emplace.app.cli import interrupts
from emplace.app.cli.exit_codes import BAD_INPUT, INTERRUPTED, TERMINATED, YES
from emplace.placement.errors import EmplaceError

if TYPE_CHECKING:
    from typer.exceptions import TyperException


_RARELY = (50_000, 20, 100)
"""Most of what a command makes stays until it ends: to look for garbage as often as Python does takes a tenth of a short one's time."""

_NOT_FINITE = {"nan", "inf", "-inf", "infinity", "-infinity"}


def main() -> None:
    """Run the command line and exit; bad input never shows a traceback."""
    interrupts.end_at_once()
    gc.set_threshold(*_RARELY)
    sys.exit(exit_code(sys.argv[1:]))


def exit_code(arguments: list[str]) -> int:
    """Run one command line and say how it ended."""
    if arguments == ["--version"]:  # before typer and all documents are imported, which takes half a second
        print(f"emplace {version('emplace')}")
        return YES
    from typer import Abort
    from typer.exceptions import TyperException

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, _stop)
    try:
        # In here, so that a broken installation doesn't end with 1, which means a proven no.
        from emplace.app.cli.commands import cli

        interrupts.listen()
        code = int(cli(arguments or ["--help"], prog_name="emplace", standalone_mode=False) or 0)
        if code == INTERRUPTED:
            raise KeyboardInterrupt  # typer turns it into this exit code, without a word
        return code if arguments else BAD_INPUT
    except TyperException as error:
        print(f"emplace: {_said(error)}{_given(error, arguments)}", file=sys.stderr)
        print("Try 'emplace --help' or 'emplace COMMAND --help'.", file=sys.stderr)
        return BAD_INPUT
    except EmplaceError as error:
        print(f"emplace: {error}", file=sys.stderr)
        return BAD_INPUT
    except (KeyboardInterrupt, Abort):
        print("emplace: interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        if isinstance(error, OSError) and error.filename is not None:  # of this machine, such as a folder without permission
            print(f"emplace: {error.filename}: can't be used: {error.strerror}", file=sys.stderr)
            return BAD_INPUT
        traceback.print_exc()
        print("emplace: this is a defect of Emplace, not of your input; please report it with the lines above", file=sys.stderr)
        return BAD_INPUT


def _said(error: TyperException) -> str:
    """Its message. A number that pydantic refuses for typer is told its rule as one in a document is."""
    from pydantic import ValidationError

    from emplace.placement.messages import rule_of

    if isinstance(error.__cause__, ValidationError) and (detail := error.__cause__.errors()[0])["type"] != "value_error":
        is_bound = detail["type"].startswith(("greater_than", "less_than"))
        error.message = "must be a finite number" if is_bound and str(detail["input"]).lower() in _NOT_FINITE else rule_of(detail)
    return error.format_message().replace("Value error, ", "")


def _given(error: TyperException, arguments: list[str]) -> str:
    """What was given for the option that `error` is about: its message names the rule only."""
    for option in getattr(getattr(error, "param", None), "opts", []):
        for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
            if argument == option or argument.startswith(f"{option}="):
                return f" (got {argument.partition('=')[2] or following!r})"
    return ""


def _stop(_signal: int, _frame: FrameType | None) -> None:
    """SIGTERM, and a terminal that is closed, unwind like Ctrl-C, so that child processes are ended and temporary files removed."""
    raise SystemExit(TERMINATED)
