"""The readers under the benchmark of hostile documents, at a size that takes seconds."""

from __future__ import annotations

import pytest

from benchmarks.hostile_specs import good_documents, read_endless, read_mutated
from benchmarks.hostile_text import ENDLESS

SIZE = 200_000


def test_mutated_documents_of_every_kind() -> None:
    good = good_documents()
    outcome = read_mutated(good, 0, range(300))
    assert outcome.tracebacks == []
    assert outcome.specs == outcome.ends["refused"] + outcome.ends["read"] + outcome.ends["planned"] == 300
    assert outcome.ends["read"] > 20
    assert read_mutated(good, 0, range(300)).ends == outcome.ends


@pytest.mark.parametrize("case", ENDLESS)
def test_endless_documents(case: str) -> None:
    outcome = read_endless(case, SIZE)
    assert outcome.tracebacks == []
    assert outcome.ends == {"refused": 1}
    # Beside a plain list of as many bytes: seconds alone would be the machine's.
    assert outcome.slowest_s < 1 or outcome.slowest_s < 12 * read_endless("yaml: list", SIZE).slowest_s
