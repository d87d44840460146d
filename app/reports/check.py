"""The interchangeable reports of a check: each turns what was found into text."""

from __future__ import annotations

from collections.abc import Callable

from emplace.app.reports.checked import Checked
from emplace.app.reports.github import github_report
from emplace.app.reports.gitlab import gitlab_report
from emplace.app.reports.json_report import json_report
from emplace.app.reports.junit import junit_report
from emplace.app.reports.markdown import markdown_report
from emplace.app.reports.sarif import sarif_report
from emplace.app.reports.text import text_report

Reporter = Callable[[Checked], str]

REPORTERS: dict[str, Reporter] = {
    "text": text_report,
    "json": json_report,
    "junit": junit_report,
    "sarif": sarif_report,
    "github": github_report,
    "markdown": markdown_report,
    "gitlab": gitlab_report,
}
