from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emplace.placement.reserve import normal_reserve, reserve_bytes
from emplace.placement.units import (
    MAX_PER_S,
    MAX_SIZE_BYTES,
    format_flops,
    format_rate,
    format_size,
    parse_flops,
    parse_rate,
    parse_size,
    show_gib,
)


@pytest.mark.parametrize(
    ("text", "size"), [("40GiB", 40 * 2**30), ("16GB", 16 * 10**9), ("1.5 KiB", 1536), ("0B", 0), (" 2TiB ", 2**41), ("0.001KB", 1)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "bad",
    [40, 4.0, "40", "GiB", "40 gib", "-1GiB", "1e3GiB", "40GiB/s", "0.3B", "nanGiB", None, True, ["40GiB"], "4٠GiB"],
)
def test_what_is_no_size(bad: object) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse_size(bad)


def test_rates_count_bits_and_bytes() -> None:
    assert parse_rate("25Gbit/s") == 3.125e9
    assert parse_rate("3.2Tbit/s") == 400e9
    assert parse_rate("900GB/s") == 9e11
    assert parse_flops("15.7TFLOP/s") == 1.57e13


@given(st.integers(0, MAX_SIZE_BYTES))
def test_a_size_reads_back(size: int) -> None:
    assert parse_size(format_size(size)) == size


@given(st.floats(1, MAX_PER_S) | st.integers(1, 10**18).map(float))
def test_rates_read_back_to_the_same_float(per_s: float) -> None:
    assert parse_rate(format_rate(per_s)) == per_s
    assert parse_flops(format_flops(per_s)) == per_s


@given(st.from_regex(r"[0-9]{1,25}(\.[0-9]{1,25})?", fullmatch=True), st.sampled_from(["B", "KiB", "TB", "TiB"]))
def test_a_rate_that_is_accepted_reads_back(number: str, unit: str) -> None:
    with suppress(ValueError):  # too low or too high
        rate = parse_rate(f"{number}{unit}/s")
        assert parse_rate(format_rate(rate)) == rate


@pytest.mark.parametrize("size", ["129TiB", "9" * 30 + "TiB", "9" * 400 + "B", "140737488355329B"])
def test_sizes_have_a_limit(size: str) -> None:
    with pytest.raises(ValueError, match="must be at most 128TiB"):
        parse_size(size)
    with pytest.raises(ValueError, match="at most 128TiB"):
        normal_reserve(size)
    assert parse_size("128TiB") == MAX_SIZE_BYTES


@pytest.mark.parametrize("unit", ["B", "%"])
def test_a_number_longer_than_decimals_can_be_is_refused(unit: str) -> None:
    with pytest.raises(ValueError, match=r"must be a size with a unit .*, or a share such as '5%'"):
        normal_reserve("9" * 2_000_000 + unit)


def test_a_reserve_that_is_no_whole_number_of_bytes_says_so() -> None:
    with pytest.raises(ValueError, match=r"^must be a whole number of bytes, or a share such as '5%'$"):
        normal_reserve("1.1GiB")


@pytest.mark.parametrize("number", ["0", "0.5", "0." + "0" * 300 + "1", "1" + "0" * 18 + ".1", "9" * 400])
def test_rates_have_limits(number: str) -> None:
    with pytest.raises(ValueError, match="at least 1B/s and at most 1000000TB/s"):
        parse_rate(f"{number}B/s")


@pytest.mark.parametrize(
    "rate", ["0GFLOP/s", "0.0000000009GFLOP/s", "0." + "0" * 300 + "1GFLOP/s", "1000001TFLOP/s", "9" * 400 + "GFLOP/s"]
)
def test_compute_rates_have_limits(rate: str) -> None:
    with pytest.raises(ValueError, match=r"at least 0\.000000001GFLOP/s and at most 1000000TFLOP/s"):
        parse_flops(rate)


def test_people_see_gib() -> None:
    assert (show_gib(3 * 2**30), show_gib(5 * 2**20), show_gib(7)) == ("3.00 GiB", "5.00 MiB", "7 B")


@pytest.mark.parametrize(
    ("text", "normal", "taken"),
    [("5%", "5%", 52), (" 2.50 % ", "2.5%", 26), ("0%", "0%", 0), ("1024B", "1KiB", 1024), ("1KB", "1KB", 1000)],
)
def test_reserves_are_shares_or_sizes(text: str, normal: str, taken: int) -> None:
    assert normal_reserve(text) == normal
    assert reserve_bytes(normal, 1025) == taken


@pytest.mark.parametrize("value", ["100%", "99." + "9" * 40 + "%", "-1%", "5", 5, 0.05, "5 percent", None])
def test_other_reserves_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        normal_reserve(value)
