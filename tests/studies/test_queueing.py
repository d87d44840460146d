"""Mean value analysis against the stationary distribution of the same network, state by state."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emplace.studies.queueing import Network, Station, bounds, mean_values


def rounds_of_chain(network: Network) -> float:
    """Rounds per microsecond from the balance equations of the Markov chain: customers at each copy, the rest think.

    A customer goes from thinking to the copies in turn, a station after the other; of equal copies to any.
    """
    copies = [(station.of_each_us * station.copies, index) for index, station in enumerate(network.stations) for _ in range(station.copies)]
    states = [state for state in product(range(network.customers + 1), repeat=len(copies)) if sum(state) <= network.customers]
    number = {state: index for index, state in enumerate(states)}
    rates = np.zeros((len(states), len(states)))

    def entering(station: int) -> list[int]:
        return [copy for copy, (_, index) in enumerate(copies) if index == station]

    def move(state: tuple[int, ...], source: int | None, station: int | None, rate: float) -> None:
        targets: list[int | None] = [None] if station is None else list(entering(station))
        for target in targets:
            after = list(state)
            if source is not None:
                after[source] -= 1
            if target is not None:
                after[target] += 1
            rates[number[state], number[tuple(after)]] += rate / len(targets)

    last = len(network.stations) - 1
    for state in states:
        thinking = network.customers - sum(state)
        if thinking:
            move(state, None, 0, thinking / network.think_us)
        for copy, (service_us, station) in enumerate(copies):
            if state[copy]:
                move(state, copy, None if station == last else station + 1, 1 / service_us)
    generator = rates - np.diag(rates.sum(axis=1))
    equations = np.vstack([generator.T, np.ones(len(states))])
    shares = np.linalg.lstsq(equations, np.append(np.zeros(len(states)), 1.0), rcond=None)[0]
    of_states = np.array([network.customers - sum(state) for state in states])
    return float(shares @ of_states) / network.think_us


@pytest.mark.parametrize(
    "network",
    [
        Network((Station("cpu", 10.0),), 30.0, 4),
        Network((Station("cpu", 10.0), Station("network", 4.0)), 5.0, 5),
        Network((Station("cpu", 12.0, copies=2), Station("server", 5.0)), 3.0, 4),
        Network((Station("cpu", 6.0, copies=3), Station("network", 2.0)), 1.0, 3),
    ],
)
def test_means_are_those_of_the_chain(network: Network) -> None:
    assert mean_values(network).rounds_per_us == pytest.approx(rounds_of_chain(network), rel=1e-6)


def test_one_customer_waits_for_nobody() -> None:
    network = Network((Station("cpu", 10.0, copies=4), Station("network", 5.0)), 25.0, 1)
    assert mean_values(network).rounds_per_us == pytest.approx(1 / 40)


def test_many_customers_are_limited_by_the_busiest_station() -> None:
    network = Network((Station("cpu", 40.0, copies=8), Station("network", 6.0)), 100.0, 500)
    flow = mean_values(network)
    assert network.longest.name == "network"
    assert flow.rounds_per_us == pytest.approx(1 / 6, rel=1e-6)
    assert flow.utilisation[1] == pytest.approx(1.0)


demands = st.floats(0.1, 100.0)
networks = st.builds(
    Network,
    st.lists(st.builds(Station, st.just("a station"), demands, st.integers(1, 5)), min_size=1, max_size=4).map(tuple),
    st.floats(0.0, 200.0),
    st.integers(1, 60),
)


@given(networks)
def test_the_mean_lies_within_its_bounds(network: Network) -> None:
    least, most = bounds(network)
    found = mean_values(network).rounds_per_us
    assert least * (1 - 1e-9) <= found <= most * (1 + 1e-9)


@given(networks)
def test_one_customer_more_never_slows_the_others_down_to_less_in_all(network: Network) -> None:
    more = Network(network.stations, network.think_us, network.customers + 1)
    assert mean_values(more).rounds_per_us >= mean_values(network).rounds_per_us * (1 - 1e-12)


@given(networks)
def test_customers_are_where_they_are_said_to_be(network: Network) -> None:
    """Those at stations and those who think are all (Little's law)."""
    flow = mean_values(network)
    at_stations = sum(station.copies * queue for station, queue in zip(network.stations, flow.waiting, strict=True))
    assert at_stations + flow.rounds_per_us * network.think_us == pytest.approx(network.customers)
