"""What the service reads from the environment. docs/reference/settings.md lists the same."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from emplace.local_store import emplace_home
from emplace.placement.errors import ToolError
from emplace.placement.messages import rule_of

_PREFIX = "EMPLACE_"

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Settings(BaseSettings):
    """`EMPLACE_` and the field's name in capitals is the variable that sets it. An empty variable counts as none."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, env_ignore_empty=True, frozen=True)

    home: Annotated[Path, AfterValidator(Path.expanduser)] = Field(default_factory=emplace_home)
    database_url: str = Field(default_factory=lambda values: f"sqlite:///{values['home'] / 'emplace.db'}")
    worker_lease_seconds: Seconds = 15.0
    """A worker that has not been heard of for so long is dead, and others take over its jobs."""
    run_timeout_seconds: Seconds = 1800.0
    """A run or a profile that takes longer is ended."""
    check_concurrency: Annotated[int, Field(gt=0)] = 2
    """Checks that are solved at once; more wait for their turn."""

    @classmethod
    def from_environment(cls) -> Self:
        """Raises ToolError that names every variable with a value that its setting can't have."""
        try:
            return cls()
        except ValidationError as error:
            wrong = [f"{_PREFIX}{str(each['loc'][0]).upper()} {rule_of(each)} (got {each['input']!r})" for each in error.errors()]
            raise ToolError("\n".join(wrong)) from None
