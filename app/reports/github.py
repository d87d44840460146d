"""A check as GitHub Actions workflow commands: annotations on the model files."""

from __future__ import annotations

from emplace.app.reports.checked import Checked
from emplace.app.reports.findings import findings


def github_report(checked: Checked) -> str:
    """One command per finding, one notice per model that passes."""
    lines = [
        f"::{finding.level} file={_property(finding.source)},line={finding.line or 1},title={_property(f'emplace {finding.rule}')}::{_message(finding.message)}"
        for finding in findings(checked)
    ]
    lines += [f"::notice title=emplace::{_message(result.summary)}" for result in checked.results if result.fits]
    return "".join(f"{line}\n" for line in lines)


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
