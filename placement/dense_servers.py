"""What it costs that trainers exchange dense parameters with servers instead of reducing gradients among each other."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from emplace.placement.document import Document
from emplace.placement.messages_cost import Coefficient, MessageCost
from emplace.placement.model import Optimizer


class DenseServersCost(Document):
    """Microseconds of an exchange with dense parameter servers, which hold equal parts of all parameters.

    Where it is at every step, gradients go to the servers, these add them up and take the optimizer's step, and parameters come back.
    Where it is every so many steps, a trainer takes the optimizer's step itself; its parameters go to the servers, which average them, while
    theirs come back (elastic averaging). A node exchanges its trainers' sum or mean: each trainer an equal part of it.
    """

    count: Annotated[int, Field(strict=True, gt=0)]
    every: Annotated[int, Field(strict=True, gt=0)]
    fixed_us: Coefficient
    """What each way takes, however few the bytes."""
    per_trainer_byte_us: Coefficient
    """On a trainer's share of its node's network."""
    per_server_byte_us: Coefficient
    """On a server's network."""
    per_added_byte_us: Coefficient
    """In a server's memory, for each byte that arrives: it is read, and what it is added to is read and written."""
    messages: MessageCost
    per_updated_byte_us: dict[Optimizer, Coefficient]
    """For each byte of a parameter on a server: the optimizer's step."""

    @property
    def ways(self) -> int:
        """How often the wires are crossed one after the other: there and back, or both at once."""
        return 2 if self.every == 1 else 1

    @property
    def start_us(self) -> float:
        """Microseconds of a step, however few the bytes."""
        return self.ways * self.fixed_us / self.every

    def time_us(self, parameter_bytes: Any, messages: int, nodes: int, trainers_per_node: int) -> Any:
        """Microseconds of a step for parameters of so many bytes in so many messages, as long as a trainer takes or a server does.

        Cores handle what goes and what comes.
        """
        of_trainer = parameter_bytes / trainers_per_node
        trainer_us = self.ways * of_trainer * self.per_trainer_byte_us + 2 * self.messages.of_trainer_us(messages, of_trainer)
        of_server, to_server = parameter_bytes * nodes / self.count, messages * nodes * trainers_per_node / self.count
        server_us = of_server * (self.ways * self.per_server_byte_us + self.per_added_byte_us)
        server_us = server_us + 2 * self.messages.of_server_us(to_server, of_server)
        return np.maximum(trainer_us, server_us) / self.every

    def update_us(self, optimizer: Optimizer, parameter_bytes: Any) -> Any:
        """Microseconds of the optimizer's step on the servers."""
        return parameter_bytes / self.count * self.per_updated_byte_us[optimizer]
