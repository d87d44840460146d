"""One contract for every store of cost models: files, both databases, and chains of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path

import pytest

from emplace.app.database.connection import Database
from emplace.app.database.cost_models import CostModelRows
from emplace.cost_model_store import Candidate, CostModelChain, CostModelStore, find_cost_model, in_order
from emplace.local_store import CostModelFiles
from emplace.placement.catalog import builtin_host
from emplace.placement.cost_model import CostModel, CostSource
from emplace.placement.host import HostSpec
from tests.prices import bandwidth_prices

CLOCK_TICK_S = 0.02
"""Files are dated by a clock that stands still for some milliseconds."""


@dataclass
class Rows:
    """The database as a store, with a transaction for each call."""

    database: Database

    def candidates(self, fingerprint: str) -> list[Candidate]:
        with self.database.reading() as session:
            found = list(CostModelRows(session).candidates(fingerprint))
            return [Candidate(each.ranks, each.kept_at, partial(_already_read, each.read())) for each in found]

    def keep(self, model: CostModel) -> str:
        with self.database.writing() as session:
            return CostModelRows(session).keep(model)


def _already_read(model: CostModel) -> CostModel:
    return model


@contextmanager
def database_at(url: str) -> Iterator[Database]:
    database = Database(url)
    yield database
    database.close()


STORES = ("files", "sqlite", "postgresql", "sqlite, then files", "files, then postgresql")


@pytest.fixture(params=STORES)
def parts(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[CostModelStore]]:
    """The stores of a chain, or the one that is to be tested by itself."""
    wanted = request.param.split(", then ")
    stores: dict[str, CostModelStore] = {"files": CostModelFiles(tmp_path / "cost-models")}
    backend = next((name for name in wanted if name != "files"), None)
    if backend is None:
        yield [stores["files"]]
        return
    database_url: Callable[[str, Path], str] = request.getfixturevalue("new_database")
    with database_at(database_url(backend, tmp_path)) as database:
        stores[backend] = Rows(database)
        yield [stores[name] for name in wanted]


@pytest.fixture
def store(parts: list[CostModelStore]) -> CostModelStore:
    return parts[0] if len(parts) == 1 else CostModelChain(*parts)


@pytest.fixture
def keep(parts: list[CostModelStore]) -> Callable[[CostModel], None]:
    """Keeps models in the parts by turns, each a little later than the one before."""
    turn = cycle(parts)

    def keep(model: CostModel) -> None:
        next(turn).keep(model)
        time.sleep(CLOCK_TICK_S)

    return keep


def machine(fingerprint: str | None = "sha256:a") -> HostSpec:
    return builtin_host("cpu-dual-socket").model_copy(update={"name": "local", "fingerprint": fingerprint})


def measured(ranks: int, *, fingerprint: str = "sha256:a", overhead_us: float = 1.0) -> CostModel:
    changes = {"source": CostSource.MEASURED, "fingerprint": fingerprint, "ranks": ranks, "step_overhead_us": overhead_us}
    return bandwidth_prices(machine(fingerprint)).model_copy(update=changes)


def ranks_found(store: CostModelStore, ranks: int | None) -> int | None:
    model = find_cost_model(store, machine(), ranks)
    return None if model is None else model.ranks


Keep = Callable[[CostModel], None]


def test_nothing_is_found_where_nothing_was_measured(store: CostModelStore) -> None:
    assert find_cost_model(store, machine(), 2) is None


def test_what_is_kept_comes_back_whole(store: CostModelStore, keep: Keep) -> None:
    keep(measured(2, overhead_us=12.5))
    assert find_cost_model(store, machine(), 2) == measured(2, overhead_us=12.5)


def test_a_model_is_for_its_own_machine_alone(store: CostModelStore, keep: Keep) -> None:
    keep(measured(2))
    assert find_cost_model(store, machine("sha256:ab"), 2) is None
    assert find_cost_model(store, machine(None), 2) is None


@pytest.mark.parametrize("order", [(1, 4, 9), (9, 4, 1), (4, 9, 1)])
def test_the_nearest_number_of_ranks_wins_whatever_is_newer(store: CostModelStore, keep: Keep, order: tuple[int, ...]) -> None:
    for ranks in order:
        keep(measured(ranks))
    assert {ranks: ranks_found(store, ranks) for ranks in (1, 2, 3, 4, 6, 8, 100)} == {1: 1, 2: 1, 3: 4, 4: 4, 6: 4, 8: 9, 100: 9}


@pytest.mark.parametrize("order", [(2, 4), (4, 2)])
def test_of_two_as_near_the_one_with_fewer_ranks_wins(store: CostModelStore, keep: Keep, order: tuple[int, ...]) -> None:
    for ranks in order:
        keep(measured(ranks))
    assert ranks_found(store, 3) == 2


def test_of_equal_ranks_the_one_kept_last_wins(store: CostModelStore, keep: Keep) -> None:
    for overhead_us in (1.0, 2.0, 3.0):
        keep(measured(2, overhead_us=overhead_us))
        assert find_cost_model(store, machine(), 2) == measured(2, overhead_us=overhead_us)


def test_without_ranks_one_for_each_device_is_meant(store: CostModelStore, keep: Keep) -> None:
    for ranks in (1, machine().num_devices):
        keep(measured(ranks))
    assert ranks_found(store, None) == machine().num_devices


def test_a_store_keeps_for_itself_and_a_chain_in_its_first(store: CostModelStore, parts: list[CostModelStore]) -> None:
    assert store.keep(measured(2))
    assert [ranks_found(part, 2) for part in parts] == [2, None][: len(parts)]


def test_candidates_that_are_equal_keep_their_order() -> None:
    def candidate(ranks: int, kept_at: float) -> Candidate:
        return Candidate(ranks, kept_at, lambda: measured(ranks))

    first, second = candidate(2, 7.0), candidate(2, 7.0)
    assert in_order([candidate(5, 9.0), first, second, candidate(2, 8.0), candidate(4, 1.0)], 3)[1:3] == [first, second]
    assert [(each.ranks, each.kept_at) for each in in_order([candidate(5, 9.0), first, candidate(4, 1.0), candidate(2, 8.0)], 3)] == [
        (2, 8.0),
        (2, 7.0),
        (4, 1.0),
        (5, 9.0),
    ]
