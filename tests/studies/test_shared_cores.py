"""Networks on shared cores against the stationary distribution of the same processes, state by state."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emplace.studies.queueing import Network, Station, mean_values
from emplace.studies.shared_cores import at_work, shared_flow


def rounds_of_chain(network: Network, cores: int) -> float:
    """Rounds per microsecond from the balance equations: customers at each station, the rest think; all share the cores."""
    demands, customers = [station.demand_us for station in network.stations], network.customers
    states = [state for state in product(range(customers + 1), repeat=len(demands)) if sum(state) <= customers]
    number = {state: index for index, state in enumerate(states)}
    generator, finished = np.zeros((len(states), len(states))), np.zeros(len(states))
    for state in states:
        thinking = customers - sum(state)
        speed = min(1.0, cores / (thinking + sum(map(bool, state))))
        moves: list[tuple[int | None, int, float]] = [(None, 0, thinking / network.think_us)] if thinking else []
        moves += [(at, at + 1, 1 / demand_us) for at, demand_us in enumerate(demands) if state[at]]
        for source, target, rate in moves:
            after = list(state)
            if source is not None:
                after[source] -= 1
            if target < len(demands):
                after[target] += 1
            else:
                finished[number[state]] = rate * speed
            generator[number[state], number[tuple(after)]] += rate * speed
    generator -= np.diag(generator.sum(axis=1))
    equations = np.vstack([generator.T, np.ones(len(states))])
    shares = np.linalg.lstsq(equations, np.append(np.zeros(len(states)), 1.0), rcond=None)[0]
    return float(shares @ finished)


@pytest.mark.parametrize("cores", [1, 2, 3])
@pytest.mark.parametrize(
    "network",
    [
        Network((Station("server", 10.0),), 30.0, 4),
        Network((Station("server", 10.0), Station("other", 4.0)), 5.0, 5),
        Network((Station("server", 3.0), Station("other", 9.0)), 40.0, 6),
    ],
)
def test_throughput_is_that_of_the_chain(network: Network, cores: int) -> None:
    assert shared_flow(network, cores).rounds_per_us == pytest.approx(rounds_of_chain(network, cores), rel=1e-6)


networks = st.builds(
    Network,
    st.lists(st.builds(Station, st.just("a server"), st.floats(0.1, 100.0)), min_size=1, max_size=4).map(tuple),
    st.floats(0.1, 200.0),
    st.integers(1, 30),
)


@given(networks)
def test_with_a_core_for_each_process_nothing_is_shared(network: Network) -> None:
    assert at_work(network).sum() == pytest.approx(1.0)
    assert shared_flow(network, network.customers).rounds_per_us == pytest.approx(mean_values(network).rounds_per_us)


@given(networks, st.integers(1, 8), st.floats(0.0, 50.0))
def test_cores_do_no_more_than_they_can(network: Network, cores: int, background_us: float) -> None:
    found = shared_flow(network, cores, background_us).rounds_per_us
    assert found * (network.total_us + network.think_us + background_us) <= cores * (1 + 1e-9)
    assert found <= mean_values(network).rounds_per_us * (1 + 1e-12)


@given(networks)
def test_on_one_core_a_round_takes_all_its_work(network: Network) -> None:
    assert shared_flow(network, 1).rounds_per_us == pytest.approx(1 / (network.total_us + network.think_us))
