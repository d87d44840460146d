"""What messages between trainers and remote servers take beside the wires: time of cores at both ends, and a trainer's link to its device."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from emplace.placement.document import Document

Coefficient = Annotated[float, Field(strict=True, ge=0, le=1e12)]


class MessageCost(Document):
    """Microseconds of a server whose cores all work, and of a trainer with its share of its node's.

    A message is read once it is there and sent once it is made, so this comes on top of the wire's time.
    """

    per_server_message_us: Coefficient
    per_server_byte_us: Coefficient
    per_trainer_message_us: Coefficient
    per_trainer_byte_us: Coefficient
    """On its cores, and on the link between system memory and its device."""

    def of_server_us(self, messages: Any, message_bytes: Any) -> Any:
        """Microseconds that a server needs for so many messages with so many bytes in all."""
        return messages * self.per_server_message_us + message_bytes * self.per_server_byte_us

    def of_trainer_us(self, messages: Any, message_bytes: Any) -> Any:
        """The same of a trainer."""
        return messages * self.per_trainer_message_us + message_bytes * self.per_trainer_byte_us


NO_MESSAGES = MessageCost(per_server_message_us=0.0, per_server_byte_us=0.0, per_trainer_message_us=0.0, per_trainer_byte_us=0.0)
"""Where there are no servers, and where exchanges were measured with what messages take."""
