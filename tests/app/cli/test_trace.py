"""`emplace trace`: recorded batches in, a model document out that can be planned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.app.cli.command import Emplace, small_model, write_model


def test_a_trace_becomes_lengths_and_accesses_of_a_model_that_can_be_planned(emplace_here: Emplace, tmp_path: Path) -> None:
    write_model(tmp_path / "small.json")
    lines = [f"{number},{number % 7} {number % 11} 3" if number % 2 else f"{number},5" for number in range(2000)]
    (tmp_path / "trace.csv").write_text("\n".join(["user,page", *lines]))
    done = emplace_here("trace", "trace.csv", "--model", "small.json", "--out", "measured.yaml")
    assert done.returncode == 0, done.stderr
    assert "measured 2,000 examples" in done.stderr
    measured = yaml.safe_load(done.stdout)
    assert measured == yaml.safe_load((tmp_path / "measured.yaml").read_text())
    users, pages = measured["tables"]
    assert users["features"][0]["length"] == {"fixed": 1}
    assert users["access"] == "uniform"
    assert pages["features"][0]["length"] == {"histogram": {"lengths": [1, 3], "weights": [0.5, 0.5]}}
    rows, accesses = pages["access"]["icdf"][-1]
    assert (rows, accesses) == (11 / 100_000, 1.0)
    kept = [{key: table[key] for key in ("name", "num_embeddings", "embedding_dim")} for table in measured["tables"]]
    assert kept == [{key: table[key] for key in ("name", "num_embeddings", "embedding_dim")} for table in small_model()["tables"]]
    assert emplace_here("plan", "measured.yaml", "--host", "dgx-h100", "--ranks", "2", "--work-limit", "1").returncode == 0


@pytest.mark.parametrize("format", ["yaml", "json"])
def test_text_stays_as_it_is_written(emplace_here: Emplace, tmp_path: Path, format: str) -> None:
    write_model(tmp_path / "small.json", description="Größe 大")
    (tmp_path / "trace.csv").write_text("user,page\n1,2\n")
    done = emplace_here("trace", "trace.csv", "--model", "small.json", "--format", format, "--out", "measured")
    assert "Größe 大" in done.stdout
    assert (tmp_path / "measured").read_text(encoding="utf-8") == done.stdout


def test_a_model_from_nothing(emplace_here: Emplace, tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("a,b\n1,2;9\n4,\n")
    done = emplace_here("trace", "trace.csv", "--embedding-dim", "64", "--format", "json")
    model = json.loads(done.stdout)
    found = [(table["name"], table["num_embeddings"], table["embedding_dim"]) for table in model["tables"]]
    assert found == [("a", 5, 64), ("b", 10, 64)]


def test_what_is_wrong_is_said(emplace_here: Emplace, tmp_path: Path) -> None:
    write_model(tmp_path / "small.json")
    (tmp_path / "trace.csv").write_text("user\n1\n")
    for arguments, said in (
        (("trace.csv",), "either --model or --embedding-dim"),
        (("trace.csv", "--model", "small.json", "--embedding-dim", "4"), "either --model or --embedding-dim"),
        (("trace.csv", "--model", "small.json"), "no column for the model's feature page"),
        (("trace.csv", "--embedding-dim", "6"), "options: /embedding_dim: must be a multiple of 4"),
        (("trace.csv", "--embedding-dim", "4", "--local-batch-size", "0"), "options: /local_batch_size: must be greater than 0"),
        (("missing.csv", "--model", "small.json"), "no such file"),
        (("small.json", "--model", "small.json"), "must end in .pt, .parquet or .csv"),
    ):
        done = emplace_here("trace", *arguments)
        assert (done.returncode, done.stdout) == (2, ""), done
        assert said in done.stderr
