"""Networks on shared cores against the stationary distribution of the same processes, state by state."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emplace.studies.queueing import Network, Station, mean_values
from emplace.studies.shared_cores import TICK_US, at_work, busy_cores, shared_flow


def cores_with_work(processes: int, cores: int, stretch_us: float) -> float:
    """In the mean over all ways to wake up on cores, each alike, until half a tick later; then on as many cores as can be."""
    woken = [len(set(places)) for places in product(range(cores), repeat=processes)]
    stays = TICK_US / (TICK_US + 2 * stretch_us)
    return stays * sum(woken) / len(woken) + (1 - stays) * min(processes, cores)


def rounds_of_chain(network: Network, cores: int, stretch_us: float) -> float:
    """Rounds per microsecond from the balance equations: customers at each station, the rest think; all share the cores."""
    demands, customers = [station.demand_us for station in network.stations], network.customers
    of_each = [int(station.processes) for station in network.stations]
    states = [state for state in product(range(customers + 1), repeat=len(demands)) if sum(state) <= customers]
    number = {state: index for index, state in enumerate(states)}
    generator, finished = np.zeros((len(states), len(states))), np.zeros(len(states))
    for state in states:
        thinking = customers - sum(state)
        processes = thinking + sum(count for count, queued in zip(of_each, state, strict=True) if queued)
        speed = cores_with_work(processes, cores, stretch_us) / processes
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


@pytest.mark.parametrize("stretch_us", [200.0, 5000.0, math.inf])
@pytest.mark.parametrize("cores", [1, 2, 3])
@pytest.mark.parametrize(
    "network",
    [
        Network((Station("server", 10.0),), 30.0, 4),
        Network((Station("server", 10.0), Station("other", 4.0)), 5.0, 5),
        Network((Station("server", 3.0), Station("other", 9.0)), 40.0, 6),
        Network((Station("two servers", 20.0, processes=2), Station("other", 5.0)), 25.0, 4),
    ],
)
def test_throughput_is_that_of_the_chain(network: Network, cores: int, stretch_us: float) -> None:
    expected = rounds_of_chain(network, cores, stretch_us)
    assert shared_flow(network, cores, stretch_us).rounds_per_us == pytest.approx(expected, rel=1e-6)


networks = st.builds(
    Network,
    st.lists(
        st.builds(Station, st.just("servers"), st.floats(0.1, 100.0), processes=st.integers(1, 3).map(float)), min_size=1, max_size=4
    ).map(tuple),
    st.floats(0.1, 200.0),
    st.integers(1, 30),
)
stretches = st.floats(1.0, 1e6)


@given(networks)
def test_with_a_core_for_each_process_that_is_spread_at_once_nothing_is_shared(network: Network) -> None:
    processes, chances = at_work(network)
    assert chances.sum() == pytest.approx(1.0)
    assert shared_flow(network, math.ceil(processes.max()), math.inf).rounds_per_us == pytest.approx(mean_values(network).rounds_per_us)


@given(networks, st.integers(1, 8), stretches, st.floats(0.0, 50.0))
def test_cores_do_no_more_than_they_can(network: Network, cores: int, stretch_us: float, background_us: float) -> None:
    found = shared_flow(network, cores, stretch_us, background_us).rounds_per_us
    assert found * (_work_us(network) + background_us) <= cores * (1 + 1e-9)
    assert found <= mean_values(network).rounds_per_us * (1 + 1e-12)


@given(networks, stretches)
def test_on_one_core_a_round_takes_all_its_work(network: Network, stretch_us: float) -> None:
    assert shared_flow(network, 1, stretch_us).rounds_per_us == pytest.approx(1 / _work_us(network))


def _work_us(network: Network) -> float:
    """The work of a round, at all processes."""
    return network.think_us + sum(station.demand_us * station.processes for station in network.stations)


@given(networks, st.integers(1, 8), stretches, st.floats(1.0, 10.0))
def test_longer_work_on_end_is_never_slower(network: Network, cores: int, stretch_us: float, longer: float) -> None:
    short, long = (shared_flow(network, cores, each_us).rounds_per_us for each_us in (stretch_us, stretch_us * longer))
    assert short <= long * (1 + 1e-12)


def test_two_processes_that_wake_often_share_a_core_half_of_the_time() -> None:
    assert busy_cores(np.array([1.0, 2.0]), 2, 1e-6) == pytest.approx([1.0, 1.5])
