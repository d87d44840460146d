"""A measured cost model is used for the machine it was measured on, and for no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from emplace.cost_model_store import find_cost_model
from emplace.local_store import local_cost_models
from emplace.placement.catalog import builtin_host, builtin_model
from emplace.placement.cost_model import CostModel, CostSource, datasheet_cost_model
from emplace.placement.errors import InvalidDocument, ToolError
from emplace.placement.host import HostSpec
from emplace.placement.model import Tier
from emplace.placement.plan import PlanOptions
from emplace.planning import build_question


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMPLACE_HOME", str(tmp_path))


def machine(fingerprint: str | None) -> HostSpec:
    return builtin_host("cpu-dual-socket").model_copy(update={"name": "local", "fingerprint": fingerprint})


def measured(fingerprint: str, ranks: int) -> CostModel:
    datasheet = datasheet_cost_model(machine(fingerprint))
    return datasheet.model_copy(update={"source": CostSource.MEASURED, "fingerprint": fingerprint, "ranks": ranks})


def found(fingerprint: str, ranks: int) -> CostModel | None:
    return find_cost_model(local_cost_models(), machine(fingerprint), ranks)


def keep(model: CostModel) -> Path:
    return Path(local_cost_models().keep(model))


def test_a_renamed_file_is_still_the_other_machine_s() -> None:
    path = keep(measured("sha256:a", 2))
    path.rename(path.with_name("sha256-b-r2.json"))
    assert found("sha256:b", 2) is None


def test_a_model_that_another_version_stored_is_to_be_measured_again() -> None:
    path = keep(measured("sha256:a", 2))
    path.write_text(path.read_text().replace('"step_overhead_us"', '"overhead_us"'))
    with pytest.raises(InvalidDocument, match=f"{path.name}.*stored by another version.*measure this machine again.*overhead_us") as caught:
        found("sha256:a", 2)
    assert len(caught.value.problems) == 1
    keep(measured("sha256:a", 4))
    assert found("sha256:a", 4) == measured("sha256:a", 4)


@pytest.mark.parametrize("missing", ["fingerprint", "ranks"])
def test_a_model_of_no_known_machine_is_not_kept(missing: str, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="measured on a known machine"):
        keep(measured("sha256:a", 2).model_copy(update={missing: None}))
    assert list(tmp_path.iterdir()) == []


def test_a_question_uses_the_measured_model_and_else_the_datasheet() -> None:
    keep(measured("sha256:a", 2))
    sources = [
        build_question(builtin_model("ncf"), machine(fingerprint), PlanOptions(ranks=2)).cost_model.source
        for fingerprint in ("sha256:a", "sha256:b")
    ]
    assert sources == [CostSource.MEASURED, CostSource.DATASHEET]


@pytest.mark.parametrize("host", [machine("sha256:b"), machine(None), builtin_host("dgx-h100")])
def test_a_given_model_of_another_machine_is_refused(host: HostSpec) -> None:
    with pytest.raises(InvalidDocument, match="another machine"):
        build_question(builtin_model("ncf"), host, PlanOptions(), measured("sha256:a", 2))


def test_a_given_model_that_lacks_a_device_is_refused() -> None:
    host = builtin_host("dgx-h100")
    model = datasheet_cost_model(host).model_copy(update={"kernels": ()})
    with pytest.raises(InvalidDocument, match="fused"):
        build_question(builtin_model("ncf"), host, PlanOptions(), model)


def test_remote_servers_were_never_measured() -> None:
    served = machine("sha256:a")
    alone = served.model_copy(update={"remote_servers": None})
    datasheet = datasheet_cost_model(alone)
    keep(datasheet.model_copy(update={"source": CostSource.MEASURED, "fingerprint": "sha256:a", "ranks": 2}))
    sources = [build_question(builtin_model("ncf"), host, PlanOptions(ranks=2)).cost_model.source for host in (alone, served)]
    assert sources == [CostSource.MEASURED, CostSource.DATASHEET]


@pytest.mark.parametrize("tiers", [None, (Tier.REMOTE,), (Tier.HBM, Tier.REMOTE)])
def test_cuda_trainers_of_a_real_machine_have_no_remote_servers(tiers: tuple[Tier, ...] | None) -> None:
    """A plan with them can't run; for a host from datasheets it is a what-if, and without the tier there is nothing to refuse."""
    what_if = builtin_host("big-basin-16g")
    real = what_if.model_copy(update={"fingerprint": "sha256:gpus"})
    model = builtin_model("ncf")
    with pytest.raises(InvalidDocument, match=r"remote_servers.*CUDA trainers"):
        build_question(model, real, PlanOptions(tiers=tiers))
    build_question(model, what_if, PlanOptions(tiers=tiers))
    build_question(model, real, PlanOptions(tiers=(Tier.HBM, Tier.DDR)))
