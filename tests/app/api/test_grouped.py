"""What waits to be written is written together, and each has an outcome of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from emplace.app.web.grouped import Close, Grouped


class Writes:
    """A group begins once `go` is set, and ends once `end` is; an odd number comes out as an error."""

    def __init__(self) -> None:
        self.go, self.end = asyncio.Event(), asyncio.Event()
        self.groups: list[list[int]] = []

    async def write(self, close: Close[int]) -> Sequence[int | Exception]:
        await self.go.wait()
        items = list(close())
        self.groups.append(items)
        await self.end.wait()
        if 0 in items:
            raise LookupError("no database")
        return [LookupError(f"{item} is odd") if item % 2 else 10 * item for item in items]


def test_who_comes_before_a_group_begins_joins_it_and_who_comes_later_makes_the_next() -> None:
    async def ask() -> None:
        grouped, writes = Grouped(), Writes()
        two, three, another = (asyncio.create_task(grouped.join(kind, item, writes.write)) for kind, item in (("a", 2), ("a", 3), ("b", 4)))
        await asyncio.sleep(0)
        writes.go.set()
        await asyncio.sleep(0.01)
        assert writes.groups == [[2, 3], [4]]
        late, later = (asyncio.create_task(grouped.join("a", item, writes.write)) for item in (6, 8))
        await asyncio.sleep(0.01)
        assert writes.groups[2:] == [[6, 8]]
        writes.end.set()
        assert [await each for each in (two, another, late, later)] == [20, 40, 60, 80]
        with pytest.raises(LookupError, match="3 is odd"):
            await three

    asyncio.run(ask())


def test_a_group_that_fails_fails_for_all_and_the_next_one_begins_anew() -> None:
    async def ask() -> None:
        grouped, writes = Grouped(), Writes()

        async def fail(close: Close[int]) -> Sequence[int | Exception]:
            raise TimeoutError(f"no turn for {close}")

        told = await asyncio.gather(*(grouped.join("a", item, fail) for item in (2, 4)), return_exceptions=True)
        assert [type(each) for each in told] == [TimeoutError, TimeoutError]
        writes.go.set()
        writes.end.set()
        assert await grouped.join("a", 6, writes.write) == 60
        told = await asyncio.gather(*(grouped.join("a", item, writes.write) for item in (0, 2)), return_exceptions=True)
        assert [type(each) for each in told] == [LookupError, LookupError]

    asyncio.run(ask())


def test_a_group_is_bounded_and_who_leaves_takes_nobody_along() -> None:
    async def ask() -> None:
        grouped, writes = Grouped(), Writes()
        tasks = [asyncio.create_task(grouped.join("a", 2 * item, writes.write)) for item in range(1, 121)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        writes.go.set()
        writes.end.set()
        assert await asyncio.gather(*tasks[1:]) == [20 * item for item in range(2, 121)]
        assert [len(group) for group in writes.groups] == [50, 50, 20]
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]

    asyncio.run(ask())
