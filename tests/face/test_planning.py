"""Which cost model a question gets, and which hosts and cost models it refuses."""

from __future__ import annotations

import pytest

from emplace.placement.catalog import builtin_host, builtin_model
from emplace.placement.cost_model import CostSource
from emplace.placement.datasheet import datasheet_cost_model
from emplace.placement.errors import InvalidDocument
from emplace.placement.host import HostSpec
from emplace.placement.model import Tier
from emplace.placement.plan import PlanOptions
from emplace.planning import build_question
from tests.face.machines import keep, machine, measured

pytestmark = pytest.mark.usefixtures("home")


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
