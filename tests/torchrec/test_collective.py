"""Two ranks together: the same plan or the same error on both, what both saw, a training that is resharded; then the examples train."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "programs" / "collective.py"
FAILS = """
import os, sys
from pathlib import Path
import torch.distributed as dist
from tests.torchrec.models import config, model, planner, sharders, topology

Path(sys.argv[1]).mkdir(exist_ok=True)
(Path(sys.argv[1]) / str(os.getpid())).touch()
dist.init_process_group("gloo")
planner(topology(2, device="cpu")).collective_plan(model(config("a", 10**11)), sharders())
"""
EXAMPLES = [ROOT / "examples" / name for name in ("torchrec_dlrm.py", "hstu_sequence.py")]


def test_a_plan_that_fails_ends_every_rank(tmp_path: Path) -> None:
    """Nobody catches the error: both ranks say it, torchrun fails, and no process is left."""
    told = tmp_path / "told"
    program = tmp_path / "fails.py"
    program.write_text(FAILS)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(program), str(told)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    run = subprocess.run(torchrun, env=environment, capture_output=True, text=True, timeout=120)
    assert run.returncode != 0
    assert run.stderr.count("does not fit, that is proven") >= 2
    for each in told.iterdir():
        assert not Path(f"/proc/{each.name}").exists()
    assert len(list(told.iterdir())) == 2


def test_both_ranks_say_the_same_and_the_examples_train(tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    # On gloo TorchRec's reshard finds its messages by Python's hashes of names, which must be the same on both ranks.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    command = [*torchrun, str(PROGRAM), str(tmp_path), *map(str, EXAMPLES)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    first, second = (json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in (0, 1))
    assert first == second
    no_room, other_world, *refused, _, seen, (stayed, resharded) = first
    assert no_room[0] == "insufficient_storage"
    assert "What makes it fit:" in no_room[1]
    assert other_world == ["input_validation", "the process group has 2 ranks, the topology 4: give it the same world_size"]
    assert run.stdout.count("updates agree with the unsharded model") == len(EXAMPLES)
    assert [kind for kind, _ in refused] == ["input_validation", "strict_constraints", "other", "plan_loading_failed"]
    for (_, text), named in zip(refused, ("parameters to shard", "no way to be sharded", "http://127.0.0.1:9: ", "none.json"), strict=True):
        assert named in text
    assert seen == {"a": [2, 16], "own-0": [1, 8], "own-1": [1, 8]}
    assert len(set(stayed)) == len(stayed)
    assert resharded == pytest.approx(stayed, rel=1e-6)
