"""A check as a GitLab code quality report: one entry per finding, on the model's file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from emplace.app.reports.checked import Checked
from emplace.app.reports.findings import Finding, Level, findings

_SEVERITIES = {Level.ERROR: "critical", Level.WARNING: "minor"}


def gitlab_report(checked: Checked) -> str:
    return json.dumps([_entry(finding) for finding in findings(checked)], indent=2, ensure_ascii=False) + "\n"


def _entry(finding: Finding) -> dict[str, Any]:
    return {
        "description": finding.message,
        "check_name": f"emplace-{finding.rule}",
        "fingerprint": finding.fingerprint,
        "severity": _SEVERITIES[finding.level],
        "location": {"path": _from_here(finding.source), "lines": {"begin": finding.line or 1}},
    }


def _from_here(source: str) -> str:
    """GitLab wants paths from the root of the repository, where its jobs run."""
    path = Path(source)
    return (path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path).as_posix()
