"""Whatever stands in a file: it is a document, or an error for people that names the file, and the line."""

from __future__ import annotations

import json
import tempfile
import warnings
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.hostile_text import GOOD_MODEL, mutated
from emplace.placement.errors import InvalidDocument
from emplace.placement.model import ModelSpec
from emplace.placement.reading import read_file, read_text

GOOD = read_text(GOOD_MODEL, ModelSpec, source="spec", as_json=False)
TEXTS = {"spec.yaml": GOOD_MODEL, "spec.json": json.dumps(GOOD.to_data(), indent=1)}


@pytest.mark.parametrize("name", TEXTS)
@given(seed=st.integers(0, 2**63))
@settings(max_examples=500, deadline=2_000)
def test_only_the_projects_own_error_comes_out(name: str, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(mutated(Random(seed), TEXTS[name]))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                model = read_file(path, ModelSpec)
                assert all(table.accesses.unique_rows(table.pooling_factor) >= 0 for table in model.tables)
        except InvalidDocument as error:
            for broken, line in zip(error.broken_rules, str(error).splitlines(), strict=True):
                assert line.startswith(f"{path}:{broken.line}: ")
                assert broken.line
