"""How figures are spelled for people."""

from __future__ import annotations

_LONG_US = 1e9


def microseconds(value: float | None) -> str:
    """`812.3 us`; from ten milliseconds on `12.34 ms`; from a thousand seconds on, which no step takes, `5.13e+08 s`."""
    if value is None:
        return "-"
    if value >= _LONG_US:
        return f"{value / 1e6:.3g} s"
    return f"{value / 1000:,.2f} ms" if value >= 10_000 else f"{value:,.1f} us"


def percent(share: float | None) -> str:
    if share is None:
        return "-"
    return "<0.01%" if 0 < share < 0.00005 else f"{share:.2%}"


def rate(samples_per_s: float | None) -> str:
    return "-" if samples_per_s is None else f"{samples_per_s:,.0f} examples/s"


def bar(share: float, width: int = 20) -> str:
    """`[########............]`, never empty for something and never full for less than all."""
    filled = min(width, max(0, round(share * width)))
    if 0 < share < 1:
        filled = min(width - 1, max(1, filled))
    return "[" + "#" * filled + "." * (width - filled) + "]"


def count(number: int, noun: str) -> str:
    """`1 table`, `3 tables`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
