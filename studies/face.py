"""Studies from a program's own models and hosts: what `import emplace` offers of them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from emplace.executor.asynchronous.settings import FleetSettings, fleet_settings
from emplace.extras import require_extra
from emplace.placement.catalog import find_model, find_stack, host_names, template_settings
from emplace.placement.document import Document
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.plan import PlanOptions
from emplace.placement.reading import from_data, read_file
from emplace.planning import resolve_host
from emplace.studies.batch import BatchSizes, BatchStudy, batch_list, run_batch
from emplace.studies.fleet import Hogwild
from emplace.studies.fleet_assignment import FleetAssignment, run_fleet
from emplace.studies.fleet_spec import FleetSpec
from emplace.studies.gradient_noise import NoiseScale
from emplace.studies.grid import Setting
from emplace.studies.job_lines import overview_of_file
from emplace.studies.jobs import Wanted
from emplace.studies.overview import Overview
from emplace.studies.quality import QualityCurve, read_curve
from emplace.studies.recommend import WORK_S as RECOMMEND_WORK_S
from emplace.studies.recommend import RankingObjective, Recommendation, run_recommend
from emplace.studies.size import MOST_NODES, WORK_S, Sizing, run_size
from emplace.studies.sweep import STUDY_GAP, Sweep, SweepStudy, axes_of, run_sweep
from emplace.studies.target import target_of

if TYPE_CHECKING:
    from emplace.studies.fleet_run import FleetRun

Model: TypeAlias = ModelSpec | Mapping[str, Any] | str | Path
Hosts: TypeAlias = str | Sequence[HostSpec | Mapping[str, Any] | str | Path]
"""Documents, data, built-in names or paths; "all" are the built-in ones."""


def sweep(
    model: Model,
    hosts: Hosts,
    vary: Sequence[str],
    *,
    settings: Sequence[str] = (),
    pareto: Sequence[tuple[str, str]] = (),
    stack: str | Path | None = None,
    processes: int = 1,
    **options: Any,
) -> Sweep:
    """Plan the model anew at every point of a grid over hosts and values.

    `vary` are paths and their values, such as "/local_batch_size=512,1024", "--nodes=1,2" or "/node/network=x1,x2"; `settings`
    those of the template "suite", such as "sparse=64". With several processes it must be called from a program that can be imported
    (`if __name__ == "__main__":`). Raises as `plan` does, before anything is solved.
    """
    setting = _setting(model, settings, stack, options)
    axes = axes_of(vary, of_template=not isinstance(setting.model, ModelSpec))
    return run_sweep(SweepStudy.of(setting, _hosts(hosts), axes, pareto), processes, lambda _done, _all: None)


def batch(
    model: Model,
    hosts: Hosts,
    batches: Sequence[int],
    *,
    curve: QualityCurve | Mapping[str, Any] | str | Path | None = None,
    noise: NoiseScale | Mapping[str, Any] | str | Path | None = None,
    settings: Sequence[str] = (),
    stack: str | Path | None = None,
    processes: int = 1,
    **options: Any,
) -> BatchSizes:
    """Throughput at each batch of a rank, where it saturates, and the time to a quality.

    Quality comes from a curve that you measured, a noise scale (`noise_scale`), or a curve of one point and a noise scale: documents,
    data or files. Without them none is said. Raises as `plan` does, before anything is solved.
    """
    setting = _setting(model, settings, stack, options)
    own = curve if curve is None or isinstance(curve, QualityCurve) else _curve(curve)
    measured = noise if noise is None or isinstance(noise, NoiseScale) else _noise(noise)
    return run_batch(BatchStudy.of(setting, _hosts(hosts), batch_list(batches), own, measured), processes, lambda _done, _all: None)


def overview(jobs: str | Path) -> Overview:
    """How the jobs of a file are distributed, a JSON object a line. Raises InvalidDocument that names broken lines."""
    return overview_of_file(Path(jobs))


def size(
    model: Model,
    hosts: Hosts,
    *,
    throughput: str | None = None,
    examples: str | None = None,
    deadline: str | None = None,
    objective: str = "servers",
    max_nodes: int = MOST_NODES,
    hogwild: Hogwild | None = None,
    settings: Sequence[str] = (),
    stack: str | Path | None = None,
    processes: int = 1,
    **options: Any,
) -> Sizing:
    """How many servers the model needs on each host to reach a throughput ("500k"), or so many examples ("10G") until a deadline ("8h").

    `objective` is what the best job has least of: "servers", "power" or "cost". `hogwild` is how CPU hosts train asynchronously.
    Raises as `plan` does, before anything is solved.
    """
    setting = _setting(model, settings, stack, {"work_limit": WORK_S} | dict(options))
    target = target_of(throughput, examples, deadline)
    wanted = from_data({"objective": objective}, _Objective, source="options").objective
    return run_size(setting, _hosts(hosts), target, wanted, hogwild or Hogwild(), max_nodes, processes, lambda _done, _all: None)


def size_fleet(
    fleet: FleetSpec | Mapping[str, Any] | str | Path,
    *,
    objective: str = "servers",
    max_nodes: int = MOST_NODES,
    hogwild: Hogwild | None = None,
    stack: str | Path | None = None,
    processes: int = 1,
    **options: Any,
) -> FleetAssignment:
    """Which jobs of a fleet get servers from its stock, as many jobs as possible for the least of the objective, and what is left over.

    `fleet` is a document, data or a file; the rest is as in `size`. Raises as `plan` does, before anything is solved.
    """
    asked = from_data({"gap": STUDY_GAP, "work_limit": WORK_S} | dict(options), PlanOptions, source="options")
    wanted = from_data({"objective": objective}, _Objective, source="options").objective
    found_stack = None if stack is None else find_stack(str(stack))
    return run_fleet(_fleet(fleet), asked, found_stack, wanted, hogwild or Hogwild(), max_nodes, processes, lambda _done, _all: None)


def recommend(
    model: Model,
    hosts: Hosts,
    *,
    objective: str = "throughput",
    settings: Sequence[str] = (),
    stack: str | Path | None = None,
    processes: int = 1,
    **options: Any,
) -> Recommendation:
    """Hosts, and places for the tables on them, ranked by "throughput", "throughput-per-watt" or "cost". Raises as `plan` does, before
    anything is solved."""
    setting = _setting(model, settings, stack, {"work_limit": RECOMMEND_WORK_S} | dict(options))
    by = from_data({"objective": objective}, _RankedBy, source="options").objective
    return run_recommend(setting, _hosts(hosts), by, processes, lambda _done, _all: None)


def asynchronous(
    settings: FleetSettings | Mapping[str, Any] | Sequence[str] = (), *, baseline: bool = True, timeout_s: float = 600.0
) -> FleetRun:
    """Train a small asynchronous fleet on this machine; with `baseline` synchronously too.

    `settings` are a document, data, or "trainers=2", "tau=16". `timeout_s` is for each training. Raises InvalidDocument, ToolError where the
    extra `execute` is not installed, and ExecutionFailed.
    """
    asked = settings if isinstance(settings, FleetSettings) else _fleet_settings(settings)
    require_extra("execute")
    from emplace.executor.asynchronous.run import FleetLaunch
    from emplace.studies.fleet_run import run_study

    return run_study(asked, FleetLaunch(Path(tempfile.gettempdir()), timeout_s, lambda _line: None), baseline=baseline)


class _Objective(Document):
    objective: Wanted


class _RankedBy(Document):
    objective: RankingObjective


def _setting(model: Model, settings: Sequence[str], stack: str | Path | None, options: Mapping[str, Any]) -> Setting:
    asked = from_data({"gap": STUDY_GAP} | dict(options), PlanOptions, source="options")
    found_stack = None if stack is None else find_stack(str(stack))
    if isinstance(model, ModelSpec):
        return Setting(model, asked, found_stack)
    if isinstance(model, Mapping):
        return Setting(from_data(dict(model), ModelSpec, source="model"), asked, found_stack)
    return Setting(template_settings(str(model), settings) or find_model(str(model)), asked, found_stack)


def _curve(curve: Mapping[str, Any] | str | Path) -> QualityCurve:
    return from_data(dict(curve), QualityCurve, source="curve") if isinstance(curve, Mapping) else read_curve(Path(curve))


def _noise(noise: Mapping[str, Any] | str | Path) -> NoiseScale:
    return from_data(dict(noise), NoiseScale, source="noise") if isinstance(noise, Mapping) else read_file(Path(noise), NoiseScale)


def _fleet(fleet: FleetSpec | Mapping[str, Any] | str | Path) -> FleetSpec:
    if isinstance(fleet, FleetSpec):
        return fleet
    return from_data(dict(fleet), FleetSpec, source="fleet") if isinstance(fleet, Mapping) else read_file(Path(fleet), FleetSpec)


def _fleet_settings(settings: Mapping[str, Any] | Sequence[str]) -> FleetSettings:
    return from_data(dict(settings), FleetSettings, source="settings") if isinstance(settings, Mapping) else fleet_settings(settings)


def _hosts(hosts: Hosts) -> list[HostSpec]:
    if isinstance(hosts, str):
        hosts = host_names() if hosts == "all" else [hosts]
    return [_host(host) for host in hosts]


def _host(host: HostSpec | Mapping[str, Any] | str | Path) -> HostSpec:
    if isinstance(host, HostSpec):
        return host
    return from_data(dict(host), HostSpec, source="host") if isinstance(host, Mapping) else resolve_host(str(host))
