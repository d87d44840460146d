"""A check as Markdown, for a comment on a change or a job summary: a sentence, a table, and the rest folded."""

from __future__ import annotations

from emplace.app.reports.checked import Checked
from emplace.app.reports.outcome import CheckOutcome
from emplace.app.reports.rows import HEADING, Row, is_shown, row_of, row_of_refused, sentence
from emplace.app.reports.text import details

MARKER = "<!-- emplace check -->"
"""Begins every report, and is not shown: by it a comment is found again, to be replaced by a newer one."""


def markdown_report(checked: Checked) -> str:
    shown = [result for result in checked.results if is_shown(result)]
    rows = [*map(row_of, shown), *map(row_of_refused, checked.refused)]
    lines = [MARKER, "", f"**{_escaped(sentence(checked))}**"]
    if rows:
        kept = [index for index in range(len(HEADING)) if any(row[index] for row in rows)]
        lines += ["", _line([HEADING[index] for index in kept]), _line(["--:" if index in (3, 4, 6) else "---" for index in kept])]
        lines += [_line([_escaped(row[index]) for index in kept]) for row in map(_marked, rows)]
    for result in shown:
        lines += _folded(f"{result.source or result.model} on {result.host}", _listed(result))
        for paste in result.pastes:
            if paste.patch:
                lines += [
                    "",
                    f"<details><summary>patch: {_html(paste.change)}</summary>",
                    "",
                    "```diff",
                    *paste.patch.rstrip("\n").split("\n"),
                    "```",
                    "",
                ]
                lines.append("</details>")
    for each in checked.refused:
        lines += _folded(each.summary, [f"- {line}" for line in each.message.splitlines()])
    return "\n".join(lines) + "\n"


def _marked(row: Row) -> Row:
    return row if row.answer == "fits" else row._replace(answer=f"**{row.answer}**")


def _listed(result: CheckOutcome) -> list[str]:
    """As a list: what belongs to the line before it stands below it."""
    return [
        f"{'  ' * (line.startswith((' ', '- ')))}- {line.strip().removeprefix('- ')}" for line in details(result, in_full=True, why=True)
    ]


def _folded(title: str, lines: list[str]) -> list[str]:
    if not lines:
        return []
    return ["", f"<details><summary>{_html(title)}</summary>", "", *map(_escaped, lines), "", "</details>"]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")
