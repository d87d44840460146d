"""What is timed, and how often batches come back."""

from __future__ import annotations

from profiler.exercise import batches_to_rotate

MIB = 2**20


def test_batches_come_back_when_their_rows_have_left_the_caches() -> None:
    assert batches_to_rotate(8 * MIB) * 8 * MIB >= 128 * MIB
    assert [batches_to_rotate(touched) for touched in (0.0, 10.0, 64 * MIB, 10_000 * MIB)] == [32, 32, 6, 6]
