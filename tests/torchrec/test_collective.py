"""Two ranks together: the same plan or the same error on both, what both saw, a training that is resharded; then the examples train, and
at last a plan fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "programs" / "collective.py"
EXAMPLES = [ROOT / "examples" / name for name in ("torchrec_dlrm.py", "hstu_sequence.py")]


@dataclass(frozen=True)
class Ran:
    """What torchrun said, and each rank."""

    torchrun: subprocess.CompletedProcess[str]
    ranks: list[dict[str, Any]]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("collective")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    # On gloo TorchRec's reshard finds its messages by Python's hashes of names, which must be the same on both ranks.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    command = [*torchrun, str(PROGRAM), str(folder), *map(str, EXAMPLES)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    told = [folder / f"rank-{rank}.json" for rank in (0, 1)]
    assert all(path.exists() for path in told), run.stderr
    return Ran(run, [json.loads(path.read_text()) for path in told])


def test_a_plan_that_fails_ends_every_rank(ran: Ran) -> None:
    """Nobody catches the error: both ranks say it, torchrun fails, and no process is left."""
    assert ran.torchrun.returncode != 0
    assert ran.torchrun.stderr.count("does not fit, that is proven") >= 2
    assert not any(Path(f"/proc/{rank['process']}").exists() for rank in ran.ranks)


def test_both_ranks_say_the_same_and_the_examples_train(ran: Ran) -> None:
    first, second = (rank["said"] for rank in ran.ranks)
    assert first == second
    no_room, other_world, *refused, other_shape, other_tables, _, seen, (stayed, resharded) = first
    assert no_room[0] == "insufficient_storage"
    assert "What makes it fit:" in no_room[1]
    assert other_world == ["input_validation", "the process group has 2 ranks, the topology 4: give it the same world_size"]
    assert ran.torchrun.stdout.count("updates agree with the unsharded model") == len(EXAMPLES), ran.torchrun.stderr
    assert [kind for kind, _ in refused] == ["input_validation", "strict_constraints", "other", "plan_loading_failed"]
    for (_, text), named in zip(refused, ("parameters to shard", "no way to be sharded", "http://127.0.0.1:9: ", "none.json"), strict=True):
        assert named in text
    differ = "ranks have different models: sparse.ebc."
    build = "build the same one on all"
    assert other_shape == ["input_validation", f"{differ}b is 10 x 16 on rank 0 and is 11 x 16 on rank 1; {build}"]
    assert other_tables == ["input_validation", f"{differ}c is not there on rank 0 and is 1000 x 16 on rank 1; {build}"]
    assert seen == {"a": [2, 16], "own-0": [1, 8], "own-1": [1, 8]}
    assert len(set(stayed)) == len(stayed)
    assert resharded == pytest.approx(stayed, rel=1e-6)
