"""Cost models in files: a measured one is found for the machine it was measured on, and for no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from emplace.cost_model_store import find_cost_model
from emplace.local_store import local_cost_models
from emplace.placement.cost_model import CostModel
from emplace.placement.errors import InvalidDocument, ToolError
from tests.face.machines import keep, machine, measured

pytestmark = pytest.mark.usefixtures("home")


def found(fingerprint: str, ranks: int) -> CostModel | None:
    return find_cost_model(local_cost_models(), machine(fingerprint), ranks)


def test_a_renamed_file_is_still_the_other_machine_s() -> None:
    path = keep(measured("sha256:a", 2))
    path.rename(path.with_name("sha256-b-r2.json"))
    assert found("sha256:b", 2) is None


def test_a_fingerprint_is_a_name_and_no_pattern() -> None:
    keep(measured("sha256:ab", 2))
    assert [found(fingerprint, 2) for fingerprint in ("sha256:a*", "sha256:a**b", "sha256:[a]b")] == [None] * 3
    keep(measured("a**b", 2))
    assert found("a**b", 2) == measured("a**b", 2)


def test_a_model_that_another_version_stored_is_to_be_measured_again() -> None:
    path = keep(measured("sha256:a", 2))
    path.write_text(path.read_text().replace('"step_overhead_us"', '"overhead_us"'))
    with pytest.raises(InvalidDocument, match=f"{path.name}.*stored by another version.*measure this machine again.*overhead_us") as caught:
        found("sha256:a", 2)
    assert len(caught.value.broken_rules) == 1
    keep(measured("sha256:a", 4))
    assert found("sha256:a", 4) == measured("sha256:a", 4)


@pytest.mark.parametrize("missing", ["fingerprint", "ranks"])
def test_a_model_of_no_known_machine_is_not_kept(missing: str, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="measured on a known machine"):
        keep(measured("sha256:a", 2).model_copy(update={missing: None}))
    assert list(tmp_path.iterdir()) == []
