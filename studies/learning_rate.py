"""A learning rate found by Bayesian optimization in trials that are stored: who is killed goes on after the last one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from emplace.placement.errors import ToolError
from emplace.profiler.alone import alone
from emplace.studies.solving import Tell

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial

_RATE = "learning_rate"


@dataclass(frozen=True)
class RateSearch:
    """Rates between two ends, evenly in logarithms. `name` tells it from others of the same store, so it must say all that a loss depends on."""

    name: str
    lowest: float
    highest: float
    trials: int
    seed: int


@dataclass(frozen=True)
class FoundRate:
    """The rate of the lowest loss, and how many trials were already there."""

    learning_rate: float
    loss: float
    trials: int
    kept: int


def find_rate(search: RateSearch, loss: Callable[[float], float], store: Path, tell: Tell) -> FoundRate:
    """The best of `trials` rates by the tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011); an infinite loss is one that diverged.

    The sampler is seeded anew before each trial, so that a search that was killed tries the same rates as one that was not. Raises ToolError
    for a store that can't be used, or that another process is at work on.
    """
    store.parent.mkdir(parents=True, exist_ok=True)
    busy = f"{store}: another process tunes with this store; wait for it, or name another one"
    with alone(store.with_name(store.name + ".lock"), busy), _opened(search, store) as study:
        _fail_interrupted(study)
        kept = len(_done(study))
        for number in range(kept, search.trials):
            tell(number, search.trials)
            _try(study, search, number, loss)
        best = min(_done(study), key=lambda trial: (math.inf if trial.value is None else trial.value, trial.number))
        tell(search.trials, search.trials)
    return FoundRate(best.params[_RATE], math.inf if best.value is None else best.value, len(_done(study)), kept)


@contextmanager
def _opened(search: RateSearch, store: Path) -> Iterator[Study]:
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        # Braces are a template to optuna.
        storage = optuna.storages.RDBStorage(f"sqlite:///{store}".replace("{", "{{").replace("}", "}}"))
        study = optuna.create_study(storage=storage, study_name=search.name, direction="minimize", load_if_exists=True)
    except (SQLAlchemyError, RuntimeError) as error:
        reason = str(getattr(error, "orig", error)).splitlines()[0]
        raise ToolError(f"{store}: can't be used as a store of trials: {reason}; name another file with --store") from None
    try:
        yield study
    finally:
        storage.remove_session()
        storage.engine.dispose()


def _try(study: Study, search: RateSearch, number: int, loss: Callable[[float], float]) -> None:
    from optuna.samplers import TPESampler

    study.sampler = TPESampler(seed=search.seed + number)
    trial = study.ask()
    study.tell(trial, loss(trial.suggest_float(_RATE, search.lowest, search.highest, log=True)))


def _fail_interrupted(study: Study) -> None:
    """A trial that is still running when nobody is at work was killed: it counts for nothing, and is tried again."""
    from optuna.trial import TrialState

    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        study.tell(trial.number, state=TrialState.FAIL)


def _done(study: Study) -> list[FrozenTrial]:
    from optuna.trial import TrialState

    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
