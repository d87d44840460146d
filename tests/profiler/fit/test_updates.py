"""The optimizers' steps over replicated parameters."""

from __future__ import annotations

import pytest

from emplace.placement.model import ComputeKernel, Optimizer
from emplace.profiler.design.experiments import QUICK, make_design
from emplace.profiler.design.point_models import REPLICA_COLUMNS, replica_rows
from emplace.profiler.design.points import Kind
from emplace.profiler.fit.samples import Timed
from emplace.profiler.fit.updates import fit_updates


def test_what_a_rank_alone_takes_for_a_replicated_parameter_is_its_update() -> None:
    """Nothing is exchanged, so what fills the gradient has no other place."""
    design = make_design(QUICK, 1, 0, (ComputeKernel.FUSED,), 2**24)
    sizes = [replica_rows(point.sent_bytes, 1) * REPLICA_COLUMNS * 4 for point in design.collectives]
    timed = {(Kind.COLLECTIVE, index): Timed(10.0 + 2e-3 * size, 5.0 + 1e-3 * size) for index, size in enumerate(sizes)}
    alone, _ = fit_updates(design, timed, 1)
    assert alone == pytest.approx(dict.fromkeys((Optimizer.SGD, Optimizer.ADAGRAD, Optimizer.ROWWISE_ADAGRAD), 3e-3), rel=1e-3)
