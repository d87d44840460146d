"""Make a study's points and refuse what can be refused before any is solved: AskedStudy in, {"points"} out."""

from __future__ import annotations

import json

from emplace.app.steps.child import Report, run_step
from emplace.app.study_pointers import pointing_into_study
from emplace.placement.reading import read_text


def prepare(text: str, report: Report) -> str:  # noqa: ARG001
    from emplace.studies.asked import AskedStudy

    asked = read_text(text, AskedStudy, source="study", as_json=True).asked
    with pointing_into_study(asked.kind):
        return json.dumps({"points": asked.study().size})


if __name__ == "__main__":
    run_step(prepare)
