"""One unit for a whole column or chart: it stands at its head, and figures below it are plain numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_LONG = 1e7


@dataclass(frozen=True)
class Unit:
    """`size` is how many of what is stored (microseconds, bytes) make one."""

    name: str
    size: float
    digits: int

    def number(self, value: float | None) -> str:
        """`1,234.50`; `-` for none; `5.13e+12` for what no column is wide enough for; never 0 for something."""
        if value is None:
            return "-"
        scaled = value / self.size
        if abs(scaled) >= _LONG:
            return f"{scaled:.3g}"
        least = 10.0**-self.digits
        return f"<{least:.{self.digits}f}" if 0 < scaled < least / 2 else f"{scaled:,.{self.digits}f}"

    def show(self, value: float | None) -> str:
        """The number with its unit."""
        return "-" if value is None else f"{self.number(value)} {self.name}".rstrip()


MICROSECONDS, MILLISECONDS, FINE_MILLISECONDS, SECONDS = Unit("us", 1, 1), Unit("ms", 1e3, 2), Unit("ms", 1e3, 3), Unit("s", 1e6, 2)
COUNT, PLAIN, THOUSANDS = Unit("", 1, 0), Unit("", 1, 3), Unit("k", 1e3, 1)
BYTES, MEBIBYTES, GIBIBYTES = Unit("B", 1, 0), Unit("MiB", 2**20, 2), Unit("GiB", 2**30, 2)


def time_unit(values_us: Iterable[float | None]) -> Unit:
    """The unit in which the longest of these reads well."""
    longest = max((value for value in values_us if value is not None), default=0.0)
    if longest < 1e3:
        return MICROSECONDS
    if longest < 1e4:
        return FINE_MILLISECONDS
    return MILLISECONDS if longest < 1e7 else SECONDS


def size_unit(values_bytes: Iterable[float | None]) -> Unit:
    """The unit in which the largest of these reads well."""
    largest = max((value for value in values_bytes if value is not None), default=0.0)
    if largest < 2**13:
        return BYTES
    return MEBIBYTES if largest < 2**28 else GIBIBYTES


def unit_of(kind: str, values: Iterable[float | None]) -> Unit:
    """For `time`, `bytes`, `count` or a plain `number`."""
    match kind:
        case "time":
            return time_unit(values)
        case "bytes":
            return size_unit(values)
    return COUNT if kind == "count" else PLAIN
