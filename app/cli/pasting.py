"""Fixes of a no, as they can be pasted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from emplace.app.cli.text_edits import applied, replacements
from emplace.app.reports.paste import Paste, unified_diff
from emplace.placement.catalog import LOCAL_HOST, host_names, model_file
from emplace.placement.document import Document
from emplace.placement.errors import InvalidDocument
from emplace.placement.plan import Explanation, Fix, Question
from emplace.placement.reading import read_text, text_of
from emplace.planning import answer
from emplace.solver.infeasibility.merge_patch import patched
from emplace.solver.progress import Monitor

WORK_LIMIT_S = 1.0
"""Counted work for the step with a fix."""


def pastes(
    question: Question, explanation: Explanation, source: str, where: str | None, *, with_steps: bool, monitor: Monitor
) -> tuple[Paste, ...]:
    """One for each fix, in their order."""
    return tuple(_paste(question, fix, source, where, with_steps, monitor) for fix in explanation.fixes)


def _paste(question: Question, fix: Fix, source: str, where: str | None, with_steps: bool, monitor: Monitor) -> Paste:
    fixed = patched(question, fix.patch)
    found = Paste(change=fix.change, flag=_flag(fix.patch), step_time_us=_step_us(fixed, monitor) if with_steps else None)
    if set(fix.patch) == {"model"}:
        return _with_patch(found, model_file(source), question.model, fixed.model)
    if set(fix.patch) == {"host"} and where is not None and where not in (*host_names(), LOCAL_HOST):
        return _with_patch(found, Path(where), question.host, fixed.host)
    return found


def _flag(patch: dict[str, Any]) -> str | None:
    """Options of the command line, where they make the whole change."""
    if set(patch) != {"options"} or None in patch["options"].values():
        return None
    spelled = {key: ",".join(value) if isinstance(value, list) else value for key, value in patch["options"].items()}
    return " ".join(f"--{key.replace('_', '-')} {value}" for key, value in spelled.items())


def _with_patch(paste: Paste, path: Path | None, before: Document, after: Document) -> Paste:
    """With a patch of the file, where its text can be changed so that it reads as it should."""
    if path is None:
        return paste
    try:
        text, as_json = text_of(path), path.suffix == ".json"
        changes = replacements(text, before.to_data(), after.to_data(), as_json=as_json)
        if changes is None:
            return paste
        new = applied(text, changes)
        if read_text(new, type(before), source=str(path), as_json=as_json) != after:
            return paste
    except InvalidDocument:
        return paste
    return paste.model_copy(update={"file": str(path), "patch": unified_diff(_in_repository(path), text, new), "replacements": changes})


def _in_repository(path: Path) -> str:
    """The path from the root of its repository; from here, where it is in none."""
    whole = path.resolve()
    root = next((folder for folder in whole.parents if (folder / ".git").exists()), Path.cwd())
    return whole.relative_to(root).as_posix() if whole.is_relative_to(root) else path.as_posix()


def _step_us(question: Question, monitor: Monitor) -> float | None:
    options = question.options.model_copy(update={"work_limit": WORK_LIMIT_S, "time_limit": None})
    return answer(question.model_copy(update={"options": options}), monitor).step_time_us
