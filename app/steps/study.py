"""Go on with a study: {"asked", "points", "before"} in, its answer out; each point is reported. SIGTERM ends it at once."""

from __future__ import annotations

from emplace.app.steps.child import Report, run_step
from emplace.placement.plan import Plan
from emplace.placement.reading import from_data, parse_json


def study(text: str, report: Report) -> str:
    from emplace.studies.asked import AskedStudy

    request = parse_json(text, "study")
    asked = from_data({"asked": request["asked"]}, AskedStudy, source="study").asked.study()
    points = [from_data(each, asked.part, source="point") for each in request["points"]]
    before = None if request["before"] is None else from_data(request["before"], Plan, source="plan")
    for number in range(len(points), asked.size):
        point, before = asked.do(number, before)
        points.append(point)
        report({"number": number, "point": point.to_data(), "before": None if before is None else before.to_data()})
    return asked.answer(points).model_dump_json(exclude_none=True)


if __name__ == "__main__":
    run_step(study)
