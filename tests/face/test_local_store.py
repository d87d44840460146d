"""A measured cost model is found for the machine it was measured on, and for no other."""

from __future__ import annotations

import pytest

from emplace.local_store import find_cost_model, save_cost_model
from emplace.placement.errors import InvalidDocument
from tests.face.machines import machine, measured

pytestmark = pytest.mark.usefixtures("home")


def test_the_number_of_ranks_decides_then_the_nearest() -> None:
    for ranks in (1, 4):
        save_cost_model(measured("sha256:a", ranks))
    found = {ranks: find_cost_model(machine("sha256:a"), ranks) for ranks in (1, 2, 3, 8)}
    assert {ranks: model.ranks for ranks, model in found.items() if model} == {1: 1, 2: 1, 3: 4, 8: 4}


def test_another_machine_finds_nothing() -> None:
    save_cost_model(measured("sha256:a", 2))
    assert find_cost_model(machine("sha256:ab"), 2) is None
    assert find_cost_model(machine(None), 2) is None


def test_a_renamed_file_is_still_the_other_machine_s() -> None:
    path = save_cost_model(measured("sha256:a", 2))
    path.rename(path.with_name("sha256-b-r2.json"))
    assert find_cost_model(machine("sha256:b"), 2) is None


def test_a_model_that_another_version_stored_is_to_be_measured_again() -> None:
    path = save_cost_model(measured("sha256:a", 2))
    path.write_text(path.read_text().replace('"step_overhead_us"', '"overhead_us"'))
    with pytest.raises(InvalidDocument, match=f"{path.name}.*stored by another version.*measure this machine again.*overhead_us") as caught:
        find_cost_model(machine("sha256:a"), 2)
    assert len(caught.value.broken_rules) == 1
    save_cost_model(measured("sha256:a", 4))
    found = find_cost_model(machine("sha256:a"), 4)
    assert found is not None
    assert found.ranks == 4
