"""The input of a step: what a batch's ids, lengths, dense values and labels are, and how fast they can arrive while devices work."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from emplace.placement.document import Document
from emplace.placement.model import ModelSpec

_READ_ID_BYTES, _READ_LENGTH_BYTES, _READ_VALUE_BYTES = 8, 4, 4
"""As TorchRec's readers hand them over: int64 ids, int32 lengths, fp32 dense values and the label."""
Coefficient = Annotated[float, Field(strict=True, ge=0, le=1e12)]


def example_bytes(model: ModelSpec) -> float:
    """Bytes of one example of the model's input, at the mean length of its features."""
    return model.ids_per_example * _READ_ID_BYTES + model.num_features * _READ_LENGTH_BYTES + (model.dense_features + 1) * _READ_VALUE_BYTES


class IngestCost(Document):
    """Microseconds for each byte of a trainer's batch on its way in; the slowest part counts, all work at once."""

    per_network_byte_us: Coefficient
    """On the trainer's share of its node's network."""
    per_link_byte_us: Coefficient = 0.0
    """From system memory to the device."""
    per_core_byte_us: Coefficient = 0.0
    """Receiving and decoding on the trainer's share of its node's cores; 0 where the host document does not say how many."""

    def time_us(self, model: ModelSpec) -> float:
        """Microseconds of a trainer's batch."""
        slowest = max(self.per_network_byte_us, self.per_link_byte_us, self.per_core_byte_us)
        return model.local_batch_size * example_bytes(model) * slowest

    def network_us(self, model: ModelSpec) -> float:
        """Microseconds of a trainer's batch on its share of its node's network, were nothing else on it."""
        return model.local_batch_size * example_bytes(model) * self.per_network_byte_us

    @property
    def slowest(self) -> str:
        """What limits it."""
        parts = {"network": self.per_network_byte_us, "link to the device": self.per_link_byte_us, "cores": self.per_core_byte_us}
        return max(parts, key=lambda part: parts[part])
