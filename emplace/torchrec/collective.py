"""A plan that one rank makes and all get: the same one, or the same error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch.distributed as dist
from torchrec.distributed.planner.types import PlannerError, PlannerErrorType

T = TypeVar("T")
_LEADER = 0


@dataclass(frozen=True)
class _Failure:
    message: str
    error_type: PlannerErrorType


@dataclass(frozen=True)
class _Outcome(Generic[T]):
    result: T | None = None
    failure: _Failure | None = None


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
