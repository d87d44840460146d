"""A check as one JSON document."""

from __future__ import annotations

import json
from dataclasses import asdict

from emplace.app.reports.checked import Checked


def json_report(checked: Checked) -> str:
    """The results as JSON. `fits` of the whole is false if any is false, else null if any is null or was refused."""
    answers = [result.fits for result in checked.results]
    fits = False if False in answers else None if None in answers or checked.refused else True
    checks = [result.model_dump(mode="json") for result in checked.results]
    refused = [asdict(each) for each in checked.refused]
    return json.dumps({"schema_version": 1, "fits": fits, "checks": checks, "refused": refused}, indent=2, ensure_ascii=False) + "\n"
