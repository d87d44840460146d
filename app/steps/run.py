"""Execute a plan: {"plan", "steps", "seed", "emulate", "timeout_s"} in, Measurement out. SIGTERM ends the rank processes first."""

from __future__ import annotations

from pathlib import Path

from emplace.app.steps.child import Report, run_step, stop_on_sigterm
from emplace.extras import require_extra
from emplace.placement.plan import Plan
from emplace.placement.reading import from_data, parse_json


def run(text: str, report: Report) -> str:
    require_extra("execute")
    from emplace.executor.emulation import emulate_plan
    from emplace.executor.launch import Launch
    from emplace.executor.run import run_plan

    should_stop = stop_on_sigterm()
    request = parse_json(text, "run")
    execute = emulate_plan if request["emulate"] else run_plan
    launch = Launch(
        steps=request["steps"],
        seed=request["seed"],
        workdir=Path.cwd(),
        report=lambda message: report({"message": message}),
        should_stop=should_stop,
        timeout_s=request["timeout_s"],
    )
    measurement = execute(from_data(request["plan"], Plan, source="plan"), launch)
    return measurement.model_dump_json(exclude_none=True)


if __name__ == "__main__":
    run_step(run)
