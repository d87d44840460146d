"""What `emplace check` does: every model on every host, one report, one exit code."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from emplace.app.cli.asked import CheckArguments
from emplace.app.cli.checking import check_all
from emplace.app.cli.config import ConfigFile, find_config, read_config
from emplace.app.cli.exit_codes import BAD_INPUT, PROVEN_NO, UNDECIDED, YES
from emplace.app.cli.init_config import config_text, refuse_existing
from emplace.app.cli.options import CheckFormat
from emplace.app.cli.output import note, print_text, save, saved_too
from emplace.app.cli.progress import StatusLine
from emplace.app.cli.questions import Questions, questions
from emplace.app.reports.check import REPORTERS
from emplace.app.reports.checked import Checked, RefusedCheck
from emplace.app.reports.outcome import CheckOutcome
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.runtime.files import refuse_unwritable


@dataclass(frozen=True)
class Reports:
    """What is to be written where."""

    format: CheckFormat
    """On stdout, or in `out`."""
    out: Path | None
    more: tuple[str, ...] = ()
    """`FORMAT=FILE` each."""

    def files(self) -> list[tuple[str, Path]]:
        """The further files with their formats. Raises InvalidDocument."""
        split = [(each, *each.partition("=")[::2]) for each in self.more]
        for each, format, file in split:
            if format not in REPORTERS or not file:
                raise InvalidDocument(
                    "options", [BrokenRule("/report", each, f"must be FORMAT=FILE, FORMAT one of {', '.join(REPORTERS)}")]
                )
        return [(format, Path(file)) for _, format, file in split]


def gate(asked: CheckArguments, config_path: Path | None, reports: Reports, *, soft_fail: bool) -> int:
    """The exit code. Raises InvalidDocument and UnknownName for what is asked of no model in particular."""
    files = reports.files()
    for _, path in files:
        refuse_unwritable(path)
    found = questions(asked, config_for(asked, config_path))
    if found.num_off:
        note(f"emplace: {found.num_off} not checked: level off")
    checked = replace(answers(found), why=asked.why)
    for each in checked.refused:
        note(f"emplace: {each.message}")
    with ExitStack() as reported:
        for format, path in files:
            reported.enter_context(saved_too(path, REPORTERS[format](checked)))
        _report(checked, reports.format, reports.out)
    return _exit_code(checked, soft_fail)


def init(asked: CheckArguments, path: Path, margin_pct: float) -> int:
    """Write a config by today's answers; the exit code says only whether it could be. Raises InvalidDocument."""
    refuse_existing(path)
    refuse_unwritable(path)
    if not (asked.models and asked.hosts):
        raise InvalidDocument("options", [BrokenRule("/init", "", "--init needs MODEL and --host: what the config is to check")])
    found = questions(replace(asked, whole=True), None)
    checked = answers(found)
    for each in checked.refused:
        note(f"emplace: {each.message}")
    if checked.refused:
        return BAD_INPUT
    save(path, config_text(asked, checked.results, path.parent, margin_pct))
    return YES


def answers(found: Questions) -> Checked:
    """Every check answered, beside the models that can't be read."""
    with StatusLine() as status:
        answered = list(check_all(found.checks, status.say, status.monitor))
    refused = (*found.bad, *(each for each in answered if isinstance(each, RefusedCheck)))
    return Checked(tuple(each for each in answered if isinstance(each, CheckOutcome)), refused)


def config_for(asked: CheckArguments, path: Path | None) -> ConfigFile | None:
    """The config that is named, else the nearest where the command line leaves models or hosts open. Raises InvalidDocument."""
    if path is not None:
        return read_config(path)
    if asked.models and asked.hosts:
        return None
    found = find_config(Path.cwd())
    if found is None:
        missing = " and ".join([*([] if asked.models else ["MODEL"]), *([] if asked.hosts else ["--host"])])
        rule = f"{missing} not given, and no emplace.toml here or above; 'emplace check --init MODEL --host HOST' writes one"
        raise InvalidDocument("options", [BrokenRule("", "", rule)])
    return found


def _report(checked: Checked, format: CheckFormat, out: Path | None) -> None:
    report = REPORTERS[format](checked)
    with saved_too(out, report):
        print_text(report if out is None or format is CheckFormat.JSON else REPORTERS[CheckFormat.TEXT](checked))


def _exit_code(checked: Checked, soft_fail: bool) -> int:
    if checked.refused:
        return BAD_INPUT
    if any(result.fails for result in checked.results) and not soft_fail:
        return PROVEN_NO
    return UNDECIDED if any(result.is_open for result in checked.results) else YES
