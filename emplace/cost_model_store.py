"""Measured cost models that are kept: one contract for files and database, and one rule for which of them prices a machine.

The rule: the nearest number of ranks wins; of two as near, the one with fewer ranks; of equal ranks, the one that was kept last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

from emplace.placement.cost_model import CostModel
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.host import HostSpec


@dataclass(frozen=True)
class Candidate:
    """A kept cost model, as far as the rule looks at it. `read` fetches it and raises InvalidDocument where it can't be read."""

    ranks: int
    kept_at: float
    """Seconds since the epoch."""
    read: Callable[[], CostModel]


class CostModelStore(Protocol):
    """Where measured cost models are kept."""

    def candidates(self, fingerprint: str) -> Iterable[Candidate]:
        """The models measured on the machine with this fingerprint, in any order."""

    def keep(self, model: CostModel) -> str:
        """Store a model and return what the store knows it by. Raises ToolError where it can't be stored."""


class CostModelChain:
    """Several stores as one: all their models are candidates, and new ones are kept in the first store."""

    def __init__(self, *stores: CostModelStore) -> None:
        self._stores = stores

    def candidates(self, fingerprint: str) -> Iterable[Candidate]:
        return chain.from_iterable(store.candidates(fingerprint) for store in self._stores)

    def keep(self, model: CostModel) -> str:
        return self._stores[0].keep(model)


def in_order(candidates: Iterable[Candidate], ranks: int) -> list[Candidate]:
    """The candidates, best first, by the rule above; those that it holds equal stay in the order given."""
    return sorted(candidates, key=lambda candidate: (abs(candidate.ranks - ranks), candidate.ranks, -candidate.kept_at))


def find_cost_model(store: CostModelStore, host: HostSpec, ranks: int | None) -> CostModel | None:
    """The best model measured on exactly this machine for so many ranks (None: one per device), or None where it was never measured.

    Raises InvalidDocument when the best one was stored by another version, or was damaged.
    """
    if host.fingerprint is None:
        return None
    for candidate in in_order(store.candidates(host.fingerprint), host.num_devices if ranks is None else ranks):
        model = candidate.read()
        if model.fingerprint == host.fingerprint:  # a file may have been renamed
            return model
    return None


@contextmanager
def refusing_other_versions(source: str) -> Iterator[None]:
    """While a kept cost model is read: what can't be read now is to be measured again. Raises InvalidDocument."""
    try:
        yield
    except InvalidDocument as error:
        rule = (
            f"was stored by another version of Emplace, or damaged; measure this machine again with as many ranks ({error.broken_rules[0]})"
        )
        raise InvalidDocument(source, [BrokenRule("", "", rule)]) from None
