"""What the service reads from the environment. docs/reference/settings.md lists the same."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from emplace.conversations import KEY_VARIABLE
from emplace.hardware.machine import cores_here
from emplace.local_store import emplace_home
from emplace.placement.errors import ToolError
from emplace.placement.messages import rule_of
from emplace.runtime.process import PARENT_VARIABLE

_PREFIX = "EMPLACE_"
_OF_OTHERS = (PARENT_VARIABLE, KEY_VARIABLE)
_OF_A_CLUSTER = re.compile(r"EMPLACE_(\w+_)?(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)")
"""What Kubernetes sets in every container for a Service whose name begins with emplace."""

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Settings(BaseSettings):
    """`EMPLACE_` and the field's name in capitals is the variable that sets it. An empty variable counts as none."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, env_ignore_empty=True, frozen=True)

    home: Annotated[Path, AfterValidator(Path.expanduser)] = Field(default_factory=emplace_home)
    database_url: str = Field(default_factory=lambda values: f"sqlite:///{values['home'] / 'emplace.db'}")
    worker_lease_seconds: Annotated[float, Field(ge=1, le=86_400, allow_inf_nan=False)] = 15.0
    """A worker that has not been heard of for so long is dead, and others take over its jobs."""
    run_timeout_seconds: Seconds = 1800.0
    """A run or a profile that takes longer is ended."""
    check_concurrency: Annotated[int, Field(gt=0)] = 2
    """Checks that the API solves at once; more wait for their turn."""
    check_queue: Annotated[int, Field(ge=0)] = 16
    """Checks that wait for their turn; more are refused."""
    plans_at_once: Annotated[int, Field(gt=0, le=1024)] = Field(default_factory=cores_here)
    """Plans that a worker solves at once."""
    plan_queue: Annotated[int, Field(gt=0)] = 10_000
    """Plans that wait for a worker; more are refused."""
    measurement_queue: Annotated[int, Field(gt=0)] = 100
    """Runs, and as many profiles, that wait for a worker of one machine; more are refused."""
    study_queue: Annotated[int, Field(gt=0)] = 100
    """Studies that wait for a worker; more are refused."""
    request_timeout_seconds: Seconds = 10.0
    """A request is given up whose headers take longer to arrive, whose body pauses for longer, or takes longer than four times this."""
    allowed_hosts: str = ""
    """Names, separated by commas, under which browsers and clients reach the service, beside localhost and addresses."""
    keep_days: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Plans that ended longer ago are deleted with their runs; none are where it is not set."""
    log_format: Literal["text", "json"] = "text"
    """How lines on standard error are written."""
    cost_models_from: Literal["loopback", "anyone"] = "loopback"
    """Who may store a cost model for a machine's fingerprint: it prices all later plans of that machine."""

    @classmethod
    def from_environment(cls) -> Self:
        """Raises ToolError that names every variable that is no setting, or has a value that its setting can't have."""
        unknown = [_unknown(name, cls.model_fields) for name in sorted(os.environ) if _means_a_setting(name, cls.model_fields)]
        if unknown:
            raise ToolError("\n".join(unknown))
        try:
            return cls()
        except ValidationError as error:
            wrong = [f"{_PREFIX}{str(each['loc'][0]).upper()} {rule_of(each)} (got {each['input']!r})" for each in error.errors()]
            raise ToolError("\n".join(wrong)) from None


def _means_a_setting(name: str, fields: Container[str]) -> bool:
    """Whether a variable looks like a setting and is none."""
    if not name.startswith(_PREFIX) or name.removeprefix(_PREFIX).lower() in fields:
        return False
    return name not in _OF_OTHERS and not _OF_A_CLUSTER.fullmatch(name)


def _unknown(name: str, fields: Iterable[str]) -> str:
    known = [field.upper() for field in fields]
    nearest = difflib.get_close_matches(name.removeprefix(_PREFIX), known, n=1)
    if nearest:
        return f"{name} is no setting; did you mean {_PREFIX}{nearest[0]}?"
    return f"{name} is no setting; there are {', '.join(_PREFIX + each for each in known)}"
