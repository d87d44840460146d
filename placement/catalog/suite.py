"""The model template `suite`: the models that Acun et al. sweep a design space with, one for each set of settings.

Published (HPCA 2021, doi 10.1109/HPCA51647.2021.00072): 64 to 4096 dense and 4 to 128 sparse features, one hash size of 100,000,
lookups truncated at 32, MLP 512-512-512, a batch of 200 on CPUs and of 1600 on GPUs, fp32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from emplace.placement.document import Document
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.lengths import MAX_LENGTH, FixedLength, PowerLaw, PowerLawLength
from emplace.placement.model import MAX_TABLES, BatchSize, EmbeddingDim, Feature, Interaction, ModelSpec, Optimizer, Table
from emplace.placement.reading import from_data
from emplace.placement.scalars import scalar_of

SUITE = "suite"
"""The name of the template."""
_ALPHA, _LONGEST = 2.5, 20
"""The power law of lengths, as those of m1, m2 and m3 (placement/catalog/draw.py)."""
_SOURCE = (
    "Acun et al., Understanding Training Efficiency of Deep Learning Recommendation Models at Scale, HPCA 2021, "
    "doi 10.1109/HPCA51647.2021.00072"
)
_DESCRIPTION = (
    "The test suite of Acun et al. Published: the ranges of dense and sparse features, one hash size of 100,000, lookups truncated at 32, "
    "MLP 512-512-512, a batch of 200 on CPUs and of 1600 on GPUs, fp32. Assumed: both MLPs alike, interaction cat, and what m1, m2 and m3 "
    "assume too: dim 128, element-wise Adagrad, power-law lengths (here of M1's mean, 28, before truncation), access by Zipf's law with "
    "exponent 1.05."
)


class SuiteSettings(Document):
    """What a model of the suite is made by."""

    dense: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = 512
    """Dense features."""
    sparse: Annotated[int, Field(strict=True, ge=1, le=MAX_TABLES)] = 32
    """Sparse features, each with a table of its own."""
    hash: Annotated[int, Field(strict=True, ge=1, le=10**12)] = 100_000
    """Rows of every table."""
    length: Annotated[float, Field(ge=1, le=MAX_LENGTH / _LONGEST)] = 28.0
    """Mean ids of a feature before they are truncated."""
    truncate: Annotated[int, Field(strict=True, ge=1, le=MAX_LENGTH)] = 32
    batch: BatchSize | None = None
    """Examples of a rank; where it is not set, `cpu_batch` or `gpu_batch` by the devices of the host."""
    cpu_batch: BatchSize = 200
    gpu_batch: BatchSize = 1600
    mlp: Annotated[str, Field(pattern=r"^[1-9][0-9]{0,5}(\^[1-9][0-9]?)?$")] = "512^3"
    """Width and depth of both MLPs: 512^3 is 512-512-512."""
    dim: EmbeddingDim = 128

    def model(self, *, on_gpus: bool = True) -> ModelSpec:
        """The model of these settings, with the batch of such a host."""
        width, _, depth = self.mlp.partition("^")
        layers = (int(width),) * int(depth or 1)
        return ModelSpec(
            schema_version=1,
            name=SUITE,
            description=_DESCRIPTION,
            source=_SOURCE,
            local_batch_size=self.batch or (self.gpu_batch if on_gpus else self.cpu_batch),
            dense_features=self.dense,
            bottom_mlp=layers,
            top_mlp=layers,
            interaction=Interaction.CAT,
            optimizer=Optimizer.ADAGRAD,
            tables=tuple(self._table(index) for index in range(self.sparse)),
        )

    def _table(self, index: int) -> Table:
        law = PowerLawLength(power_law=PowerLaw(mean=self.length, alpha=_ALPHA, max=round(_LONGEST * self.length)))
        length = FixedLength(fixed=1) if self.length == 1 else law
        feature = Feature(name=f"f{index:03d}", length=length, truncate=self.truncate)
        return Table.model_validate(
            {
                "name": f"t{index:03d}",
                "num_embeddings": self.hash,
                "embedding_dim": self.dim,
                "features": (feature,),
                "access": {"zipf": 1.05},
            }
        )


def suite_settings(given: Sequence[str]) -> SuiteSettings:
    """Settings as a person types them: `sparse=64`, `hash=5M`, `mlp=512^3`. Raises InvalidDocument."""
    data: dict[str, Any] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not value:
            rule = f"must be NAME=VALUE, such as sparse=64; names are {', '.join(SuiteSettings.model_fields)}"
            raise InvalidDocument("--set", [BrokenRule("", repr(each), rule)])
        if name in data:
            raise InvalidDocument("--set", [BrokenRule(f"/{name}", value, "is set twice")])
        data[name] = value if name == "mlp" else scalar_of(value)
    return from_data(data, SuiteSettings, source="--set")
