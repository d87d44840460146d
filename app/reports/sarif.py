"""A check as SARIF 2.1.0 (OASIS), for code scanning: one result per finding, on the model's file."""

from __future__ import annotations

import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from emplace.app.reports.checked import Checked
from emplace.app.reports.findings import RULES, Finding, findings
from emplace.app.reports.paste import Paste

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_report(checked: Checked) -> str:
    rules = [{"id": rule, "shortDescription": {"text": text}} for rule, text in RULES.items()]
    driver = {"name": "emplace", "version": version("emplace"), "rules": rules}
    run = {"tool": {"driver": driver}, "results": [_result(finding) for finding in findings(checked)], "columnKind": "unicodeCodePoints"}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False) + "\n"


def _result(finding: Finding) -> dict[str, Any]:
    fixes = [_fix(paste, paste.file) for paste in finding.pastes if paste.file is not None]
    return {
        "ruleId": finding.rule,
        "ruleIndex": list(RULES).index(finding.rule),
        "level": str(finding.level),
        "message": {"text": finding.message},
        "locations": [
            {"physicalLocation": {"artifactLocation": {"uri": _uri(finding.source)}, "region": {"startLine": finding.line or 1}}}
        ],
        "partialFingerprints": {"primaryLocationLineHash": finding.fingerprint},
    } | ({"fixes": fixes} if fixes else {})


def _fix(paste: Paste, file: str) -> dict[str, Any]:
    replacements = [
        {
            "deletedRegion": {
                "startLine": each.line,
                "startColumn": each.column,
                "endLine": each.end_line,
                "endColumn": each.end_column,
            },
            "insertedContent": {"text": each.text},
        }
        for each in paste.replacements
    ]
    change = {"artifactLocation": {"uri": _uri(file)}, "replacements": replacements}
    return {"description": {"text": paste.change}, "artifactChanges": [change]}


def _uri(source: str) -> str:
    """Relative paths stay relative, so that the host of the code finds the file."""
    path = Path(source)
    return path.as_uri() if path.is_absolute() else quote(os.fsencode(path.as_posix()))
