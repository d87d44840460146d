"""Parameter servers: sparse ones look up and update rows, dense ones hold the centre that trainers are averaged with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from emplace.executor.asynchronous.job import StalenessSum
from emplace.executor.asynchronous.links import NOTHING, Server
from emplace.executor.asynchronous.model import Tables

if TYPE_CHECKING:
    from torch import Tensor

    from emplace.executor.asynchronous.progress import Marks


def serve_tables(server: Server, tables: Tables, staleness: StalenessSum, marks: Marks) -> None:
    """Answer ids with pooled vectors; the client's next message is their gradient, or nothing where it only wanted to know."""
    asked: dict[int, tuple[Tensor, int]] = {}
    updates = 0
    for message in server.messages():
        marks()
        if message.client not in asked:
            rows = tables.rows(message.array(np.int64))
            asked[message.client] = rows, updates
            server.answer(message, tables.pooled(rows))
        else:
            rows, seen = asked.pop(message.client)
            if message.content:
                tables.update(rows, message.array(np.float32))
                staleness.add(updates - seen)
                updates += 1
            server.answer(message, NOTHING)
        marks()


def serve_centre(server: Server, centre: NDArray[np.float32], elasticity: float, staleness: StalenessSum, marks: Marks) -> None:
    """Answer parameters with how far they are to move, and move the centre as far towards them: elastic averaging.

    Zhang, Choromanska, LeCun, "Deep Learning with Elastic Averaging SGD", NeurIPS 2015, algorithm 1. Nothing is answered with the centre.
    """
    last: dict[int, int] = {}
    averages = 0
    for message in server.messages():
        if not message.content:
            server.answer(message, centre)
            continue
        marks()
        move = elasticity * (message.array(np.float32) - centre)
        centre += move
        staleness.add(averages - last.get(message.client, averages))
        averages += 1
        last[message.client] = averages
        server.answer(message, move)
        marks()
