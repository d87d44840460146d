from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.reserve import normal_reserve, reserve_bytes
from placement.units import format_flops, format_rate, format_size, parse_flops, parse_rate, parse_size, show_gib


@pytest.mark.parametrize(
    ("text", "size"), [("40GiB", 40 * 2**30), ("16GB", 16 * 10**9), ("1.5 KiB", 1536), ("0B", 0), (" 2TiB ", 2**41), ("0.001KB", 1)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "bad", [40, 4.0, "40", "GiB", "40 gib", "-1GiB", "1e3GiB", "40GiB/s", "0.3B", "nanGiB", None, True, ["40GiB"], "4٠GiB"]
)
def test_what_is_no_size(bad: object) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse_size(bad)


def test_rates_count_bits_and_bytes() -> None:
    assert parse_rate("25Gbit/s") == 3.125e9
    assert parse_rate("900GB/s") == 9e11
    assert parse_flops("15.7TFLOP/s") == 1.57e13


@given(st.integers(0, 10**18))
def test_a_size_reads_back(size: int) -> None:
    assert parse_size(format_size(size)) == size


@given(st.integers(1, 10**15))
def test_a_rate_reads_back(rate: int) -> None:
    assert parse_rate(format_rate(float(rate))) == rate


@given(st.integers(1, 10**9))
def test_compute_reads_back_to_a_megaflop(megaflops: int) -> None:
    assert parse_flops(format_flops(megaflops * 1e6)) == pytest.approx(megaflops * 1e6, rel=1e-5)


def test_people_see_gib() -> None:
    assert (show_gib(3 * 2**30), show_gib(5 * 2**20), show_gib(7)) == ("3.00 GiB", "5.00 MiB", "7 B")


@pytest.mark.parametrize(
    ("text", "normal", "taken"),
    [("5%", "5%", 52), (" 2.50 % ", "2.5%", 26), ("0%", "0%", 0), ("1024B", "1KiB", 1024), ("1KB", "1KB", 1000)],
)
def test_reserves_are_shares_or_sizes(text: str, normal: str, taken: int) -> None:
    assert normal_reserve(text) == normal
    assert reserve_bytes(normal, 1025) == taken


@pytest.mark.parametrize("value", ["100%", "-1%", "5", 5, 0.05, "5 percent", None])
def test_other_reserves_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        normal_reserve(value)
