"""A check as one JSON document."""

from __future__ import annotations

import json
from collections.abc import Sequence

from emplace.gate import CheckResult


def json_report(results: Sequence[CheckResult]) -> str:
    """The results as JSON. `fits` of the whole is false if any is false, else null if any is null."""
    answers = [result.fits for result in results]
    fits = False if False in answers else None if None in answers else True
    checks = [result.model_dump(mode="json") for result in results]
    return json.dumps({"schema_version": 1, "fits": fits, "checks": checks}, indent=2, ensure_ascii=False) + "\n"
