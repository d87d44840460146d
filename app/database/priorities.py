"""Which of the plans that wait is solved first; of equal ones, the one that was asked for first."""

from __future__ import annotations

from enum import StrEnum


class Priority(StrEnum):
    """The queue and the database keep its rank: the smallest goes first."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"

    @property
    def rank(self) -> int:
        return list(Priority).index(self) + 1

    @classmethod
    def of_rank(cls, rank: int) -> Priority:
        return list(cls)[rank - 1]
