"""What the dense part keeps of a rank's memory."""

from __future__ import annotations

from itertools import accumulate

import pytest
import torch
from torch import nn
from torch.profiler import profile
from torchrec.distributed.planner.storage_reservations import FixedAbsoluteStorageReservation, FixedPercentageStorageReservation
from torchrec.distributed.planner.types import PlannerError, PlannerErrorType

from emplace.torchrec import measure_reservation
from tests.torchrec.models import config, ids, model, planner, sharders, topology

pytestmark = pytest.mark.torch

GIB = 2**30
PARAMETERS = 16 * 32 + 32 + 32 + 1


@pytest.mark.parametrize(("optimizer", "states"), [("sgd", 0), ("adagrad", 1), ("adam", 2)])
def test_every_part_is_counted(optimizer: str, states: int) -> None:
    """fp32: weights and buckets, state, the vectors that the two layers keep, and one gradient of the largest tensor."""
    kept = 8 * (16 + 32) * 4
    expected = PARAMETERS * (2 + states) * 4 + kept + max(16 * 32 * 4, 8 * 32 * 4)
    assert measure_reservation(model(config("a")), ids(["a-ids"], 8), optimizer=optimizer) == expected


def test_tables_are_left_as_they_were_and_buffers_count() -> None:
    module = model(config("a"))
    before = measure_reservation(module, ids(["a-ids"], 8))
    module.top.append(nn.BatchNorm1d(1, affine=False, track_running_stats=True, device="meta"))
    after = measure_reservation(module, ids(["a-ids"], 8))
    assert after > before
    assert "forward" not in vars(module.sparse["ebc"])


def test_a_reservation_keeps_the_larger_of_itself_and_what_emplace_counts() -> None:
    """Emplace counts some MiB for this model: a small reservation changes nothing, a large one stays free in full."""
    module, of = model(config("a")), topology(hbm_cap=GIB)
    capacities = []
    for reserved_bytes in (0, 2**20, GIB // 2):
        made = planner(of, storage_reservation=FixedAbsoluteStorageReservation(reserved_bytes))
        made.plan(module, sharders())
        assert made.last_plan is not None
        capacities.append(made.last_plan.ranks[0].hbm_capacity_bytes)
        counted = made.last_plan.ranks[1].hbm_bytes
    assert capacities[:2] == [GIB, GIB]
    assert GIB // 2 <= capacities[2] <= GIB // 2 + counted


def test_a_percentage_of_everything_leaves_nothing() -> None:
    with pytest.raises(PlannerError, match="storage_reservation: /hbm: keeps all of the 1GiB that a rank has") as error:
        planner(topology(hbm_cap=GIB), storage_reservation=FixedPercentageStorageReservation(1.0)).plan(model(config("a")), sharders())
    assert error.value.error_type is PlannerErrorType.INSUFFICIENT_STORAGE


def test_it_is_what_a_step_on_this_machine_takes() -> None:
    """The most bytes that the allocator has given out during a step of the dense layers, tables apart."""
    width, examples = 512, 256
    dense = nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(width, width), nn.ReLU())), nn.Linear(width, 1))
    module = model(config("a", dim=width))
    module.top = dense
    counted = measure_reservation(module, ids(["a-ids"], examples), optimizer="adam")
    optimizer = torch.optim.Adam(dense.parameters(), foreach=False)
    vectors = torch.zeros(examples, width, requires_grad=True)
    held = sum(parameter.numel() * 4 for parameter in dense.parameters())
    with profile(profile_memory=True) as profiler:
        for _ in range(2):
            optimizer.zero_grad()
            dense(vectors).sum().backward()
            optimizer.step()
    moves = [event.nbytes() for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    measured = held + max(accumulate(moves))
    assert counted == pytest.approx(measured, rel=0.1)
