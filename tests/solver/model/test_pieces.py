"""What pieces of a table take together, and the widest of them: never less than is said."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from emplace.solver.model.pieces import least_of_pieces, widest_of_pieces


@given(st.data(), st.lists(st.integers(1, 8), min_size=1, max_size=8), st.integers(0, 3), st.integers(0, 3))
def test_no_cut_takes_less(data: st.DataObject, cut: list[int], fewer: int, more: int) -> None:
    """Whatever a piece of each width takes: `cut` are the pieces, in fours of columns."""
    prices = np.array([data.draw(st.lists(st.floats(0, 1e6), min_size=sum(cut) + 2, max_size=sum(cut) + 2))])
    columns, fewest, most = np.array([4 * sum(cut)]), np.array([max(len(cut) - fewer, 1)]), np.array([len(cut) + more])
    each = prices[0][np.array(cut) - 1]
    assert least_of_pieces(prices, columns, fewest, most)[0] <= each.sum() + 1e-6 * each.sum() + 1e-3
    assert widest_of_pieces(prices, columns, most)[0] <= each[np.argmax(cut)]


@given(st.floats(0, 100), st.floats(0, 100), st.integers(2, 16))
def test_it_is_exact_where_pieces_cost_something_each_and_by_column(foot: float, slope: float, pieces: int) -> None:
    prices = np.array([foot + slope * 4 * width for width in range(1, 33)])[None, :, None]
    count = np.array([pieces])
    assert np.isclose(least_of_pieces(prices, np.array([128]), count, count)[0, 0], pieces * foot + 128 * slope)
    assert np.isclose(widest_of_pieces(prices, np.array([128]), count)[0, 0], foot + slope * 4 * -(-32 // pieces))


def test_a_whole_table_is_a_single_piece() -> None:
    prices, one = np.array([[7.0, 3.0, 5.0]]), np.array([1])
    assert least_of_pieces(prices, np.array([12]), one, one)[0] == 5.0
