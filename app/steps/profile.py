"""Measure this machine: {"ranks", "quick", "seed"} in, CostModel out."""

from __future__ import annotations

from emplace.app.steps.child import Report, run_step
from emplace.extras import require_extra
from emplace.local_store import unfinished_profiles
from emplace.placement.reading import parse_json


def profile(text: str, report: Report) -> str:
    require_extra("execute")
    from emplace.profiler.profile import profile_host

    request = parse_json(text, "profile")
    model = profile_host(
        ranks=request["ranks"],
        quick=request["quick"],
        seed=request["seed"],
        report=lambda message: report({"message": message}),
        workdir=unfinished_profiles(),
    )
    return model.model_dump_json(exclude_none=True)


if __name__ == "__main__":
    run_step(profile)
