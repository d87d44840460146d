"""What the fit of whole steps takes from the host document."""

from __future__ import annotations

import pytest

from emplace.hardware.discover import discover_host
from emplace.profiler.fit.step_fit import StepFit, effective_ranks_per_core
from tests.profiler.fit.known_costs import TRUE, true_known


@pytest.mark.parametrize(("ranks", "on_cores"), [(1, 1.0), (2, 1.2), (4, 1.2), (8, 2.4), (64, 19.2)])
def test_a_rank_gains_from_others_that_wait_as_if_more_of_them_shared_its_core(ranks: int, on_cores: float) -> None:
    host = discover_host()
    cpu = host.node.devices[0].model_copy(update={"count": 4})
    node = host.node.model_copy(update={"devices": (cpu,)})
    assert effective_ranks_per_core(host.model_copy(update={"node": node}), ranks) == pytest.approx(on_cores)


def test_bytes_across_nodes_never_cost_less_than_inside_one() -> None:
    """Only links inside the node are measured; the host document says what its network does."""
    host = discover_host()
    slow = StepFit(host, 2, true_known()).cost_model(TRUE | {"all_to_all per_byte_us": 1e3}, true_known()).all_to_all
    fast = StepFit(host, 2, true_known()).cost_model(TRUE | {"all_to_all per_byte_us": 1e-9}, true_known()).all_to_all
    assert slow.per_inter_node_byte_us == 1e3
    assert fast.per_inter_node_byte_us == pytest.approx(1e6 * 2 / host.node.network)
