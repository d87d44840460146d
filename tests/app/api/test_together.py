"""Equal questions that wait together."""

from __future__ import annotations

import asyncio

import pytest

from emplace.app.web.together import Begin, Together


class Looks:
    """Looks that begin once `go` is set and end once `end` is; each returns its number."""

    def __init__(self) -> None:
        self.go, self.end, self.begun = asyncio.Event(), asyncio.Event(), 0

    async def look(self, begin: Begin) -> int:
        await self.go.wait()
        begin()
        self.begun += 1
        number = self.begun
        await self.end.wait()
        if number > 1:
            raise LookupError(f"look {number}")
        return number


def test_who_asks_before_a_look_begins_shares_it_and_who_asks_later_does_not() -> None:
    async def ask() -> None:
        together, looks = Together(), Looks()
        first, second, another = (asyncio.create_task(together.ask(each, looks.look)) for each in ("plan 1", "plan 1", "plan 2"))
        await asyncio.sleep(0)
        looks.go.set()
        await asyncio.sleep(0.01)
        assert looks.begun == 2
        late, later = (asyncio.create_task(together.ask("plan 1", looks.look)) for _ in range(2))
        await asyncio.sleep(0.01)
        assert looks.begun == 3, "two who came late share one look"
        looks.end.set()
        assert await first == await second == 1
        for told in (another, late, later):
            with pytest.raises(LookupError):
                await told

    asyncio.run(ask())


def test_who_leaves_takes_nobody_along() -> None:
    async def ask() -> None:
        together, looks = Together(), Looks()
        leaving, staying = (asyncio.create_task(together.ask("plan 1", looks.look)) for _ in range(2))
        await asyncio.sleep(0)
        leaving.cancel()
        looks.go.set()
        looks.end.set()
        assert await staying == 1
        with pytest.raises(asyncio.CancelledError):
            await leaving

    asyncio.run(ask())


def test_a_look_that_failed_before_it_began_is_not_remembered() -> None:
    async def ask() -> None:
        together = Together()

        async def fails(begin: Begin) -> int:
            del begin
            raise LookupError

        async def succeeds(begin: Begin) -> int:
            begin()
            return 7

        with pytest.raises(LookupError):
            await together.ask("plan 1", fails)
        assert await together.ask("plan 1", succeeds) == 7

    asyncio.run(ask())
