"""Who waits for a thread is let in by when its request came."""

from __future__ import annotations

import asyncio
from pathlib import Path

from emplace.app.web.service import GROUPS, READING, WRITING
from emplace.app.web.turns import Turns, as_came_now


async def begun(turns: Turns, name: str, order: list[str], go: asyncio.Event) -> None:
    async with turns.taken():
        order.append(name)
        await go.wait()


def test_the_one_that_came_first_is_let_in_first_whenever_it_began_to_wait() -> None:
    async def ask() -> list[str]:
        turns, order, go, first_waits = Turns(1), list[str](), asyncio.Event(), asyncio.Event()

        async def first() -> None:
            with as_came_now():
                await first_waits.wait()
                await begun(turns, "first", order, go)

        async def second() -> None:
            with as_came_now():
                await begun(turns, "second", order, go)

        tasks = [asyncio.create_task(each) for each in (begun(turns, "at it", order, go), first())]
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(second()))
        await asyncio.sleep(0)
        first_waits.set()
        for _ in range(3):
            await asyncio.sleep(0)
        go.set()
        await asyncio.gather(*tasks)
        return order

    assert asyncio.run(ask()) == ["at it", "first", "second"]


def test_a_turn_is_not_lost_with_one_that_left() -> None:
    async def ask() -> list[str]:
        turns, order, go = Turns(1), list[str](), asyncio.Event()
        at_it, leaves, offered, stays = (
            asyncio.create_task(begun(turns, name, order, go)) for name in ("at it", "leaves", "offered", "stays")
        )
        await asyncio.sleep(0)
        leaves.cancel()
        go.set()
        while not at_it.done():
            await asyncio.sleep(0)
        offered.cancel()  # with the turn already given to it
        await asyncio.wait([stays], timeout=5)
        async with asyncio.timeout(5), turns.taken():
            order.append("another")
        return order

    assert asyncio.run(ask()) == ["at it", "stays", "another"]


def test_how_many_requests_are_at_once_is_said_as_it_is() -> None:
    said = (Path(__file__).parents[3] / "docs/how-to/operate.md").read_text()
    assert f"| requests that read the database | {READING} |" in said
    assert f"| requests that write to it | {WRITING + GROUPS}; 1 on SQLite |" in said
