"""A plan that one rank makes and all get, for the model that all have: the same one, or the same error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch.distributed as dist
from torchrec.distributed.planner.types import PlannerError, PlannerErrorType

T = TypeVar("T")
_LEADER = 0

Shapes = Mapping[tuple[str, str], tuple[int, ...]]
"""Rows and columns of every table, by its module's path and its name there."""


@dataclass(frozen=True)
class _Failure:
    message: str
    error_type: PlannerErrorType


@dataclass(frozen=True)
class _Outcome(Generic[T]):
    result: T | None = None
    failure: _Failure | None = None


def refuse_outsiders(group: dist.ProcessGroup) -> None:
    """Raises PlannerError on a rank that is not in the group, which has no other ranks to plan with."""
    if dist.get_rank(group) < 0:
        text = f"rank {dist.get_rank()} is not in the process group: call collective_plan on the ranks of the group, and on no other"
        raise PlannerError(text, PlannerErrorType.INPUT_VALIDATION)


def refuse_different(group: dist.ProcessGroup, shapes: Shapes) -> None:
    """Raises the same PlannerError on every rank where one's tables are not those of the first."""
    of_ranks: list[Any] = [None] * group.size()
    dist.all_gather_object(of_ranks, shapes, group=group)
    first = of_ranks[_LEADER]
    for rank, own in enumerate(of_ranks):
        different = next((table for table in {**first, **own} if first.get(table) != own.get(table)), None)
        if different is not None:
            here, there = (
                f"{_spelled(of_ranks[each].get(different))} on rank {dist.get_global_rank(group, each)}" for each in (_LEADER, rank)
            )
            text = f"ranks have different models: {'.'.join(filter(None, different))} {here} and {there}; build the same one on all"
            raise PlannerError(text, PlannerErrorType.INPUT_VALIDATION)


def _spelled(shape: tuple[int, ...] | None) -> str:
    return "is not there" if shape is None else f"is {' x '.join(map(str, shape))}"


def on_leader(group: dist.ProcessGroup, make: Callable[[], T]) -> T:
    """What `make` returns on the group's first rank, on every rank. Where it fails, every rank raises the same PlannerError.

    TorchRec's invoke_on_rank_and_broadcast_result leaves the other ranks waiting when the first one raises.
    """
    outcome: _Outcome[T] = _Outcome()
    cause: Exception | None = None
    if group.rank() == _LEADER:
        try:
            outcome = _Outcome(result=make())
        except PlannerError as error:
            cause, outcome = error, _Outcome(failure=_Failure(str(error), error.error_type))
        except Exception as error:
            failure = _Failure(f"planning failed on rank {_LEADER}: {type(error).__name__}: {error}", PlannerErrorType.OTHER)
            cause, outcome = error, _Outcome(failure=failure)
    everyone: list[_Outcome[T]] = [outcome]
    if group.size() > 1:
        dist.broadcast_object_list(everyone, src=dist.get_global_rank(group, _LEADER), group=group)
    failure_everywhere = everyone[0].failure
    if failure_everywhere is not None:
        raise PlannerError(failure_everywhere.message, failure_everywhere.error_type) from cause
    result = everyone[0].result
    assert result is not None
    return result
