"""What vectors and their gradients are sent in: TorchRec's quantized communication (torchrec/distributed/fbgemm_qcomm_codec.py, QCommsConfig)."""

from __future__ import annotations

from enum import StrEnum

from emplace.placement.document import Document

REDUCED_BYTES = 2
"""The least that a value takes where partial sums are reduced on the way: TorchRec reduces in fp16 or bf16 what it can't in fp8."""


class CommPrecision(StrEnum):
    """TorchRec's CommType, as far as its codecs need no row dimension of their own."""

    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"

    @property
    def value_bytes(self) -> int:
        """Bytes of a value on its way."""
        return _VALUE_BYTES[self]


_VALUE_BYTES = {CommPrecision.FP32: 4, CommPrecision.FP16: 2, CommPrecision.BF16: 2, CommPrecision.FP8: 1}


class Qcomm(Document):
    """Precisions of a module's exchanges; fp32 leaves values as they are put out."""

    forward_precision: CommPrecision = CommPrecision.FP32
    """What vectors are sent to trainers in."""
    backward_precision: CommPrecision = CommPrecision.FP32
    """What their gradients are sent back in."""


AS_PUT_OUT = Qcomm()
