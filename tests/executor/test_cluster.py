"""Two agents in two network namespaces, joined by one virtual cable, train one plan as two machines would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from emplace.executor.cluster import main
from emplace.placement.host import HostSpec
from emplace.placement.measurement import Measurement
from emplace.placement.reading import read_file
from tests.executor.plans import build_plan, every_layout, make_model, make_model_of_seven, mixed_layouts

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
ADDRESSES = ("10.213.77.1", "10.213.77.2")
CABLE = "cable"
TIMEOUT_S = 120


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise PermissionError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


@pytest.fixture
def nodes() -> Iterator[list[str]]:
    """Two namespaces that can reach each other and nothing else."""
    names = [f"emplace{os.getpid()}{side}" for side in "ab"]
    try:
        for name in names:
            _ip("netns", "add", name)
        _ip("link", "add", CABLE, "netns", names[0], "type", "veth", "peer", "name", CABLE, "netns", names[1])
        for name, address in zip(names, ADDRESSES, strict=True):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", CABLE)
            for link in ("lo", CABLE):
                _ip("-n", name, "link", "set", link, "up")
    except (PermissionError, FileNotFoundError) as error:
        _delete(names)
        pytest.skip(f"network namespaces are not permitted here: {error}")
    yield names
    _delete(names)


def _delete(names: list[str]) -> None:
    for name in names:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True)


def _agent(node: str, number: int, *arguments: str) -> subprocess.Popen[str]:
    """The command of docs/how-to/run-a-plan.md, inside a namespace."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", str(number), "--nproc-per-node", "2"]
    rendezvous = ["--master-addr", ADDRESSES[0], "--master-port", "29511", "--max-restarts", "0"]
    return subprocess.Popen(
        ["ip", "netns", "exec", node, *torchrun, *rendezvous, "-m", "emplace.executor.cluster", *arguments],
        cwd=ROOT,
        env=os.environ | {"GLOO_SOCKET_IFNAME": CABLE},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _run(nodes: list[str], *arguments: str) -> list[tuple[int, str]]:
    """(exit code, output) of both agents."""
    agents = [_agent(node, number, *arguments) for number, node in enumerate(nodes)]
    try:
        return [(agent.wait(TIMEOUT_S), said) for agent in agents for said, _ in [agent.communicate(timeout=TIMEOUT_S)]]
    finally:
        for agent in agents:
            agent.kill()
            agent.wait()


def _bytes_received(node: str) -> int:
    found = re.search(r"RX:.*\n\s*(\d+)", _ip("-n", node, "-s", "link", "show", CABLE))
    assert found is not None
    return int(found[1])


@pytest.mark.usefixtures("own_temporary_folder")
def test_two_nodes_train_one_plan(nodes: list[str], here: HostSpec, tmp_path: Path) -> None:
    model = make_model_of_seven("two-nodes")
    plan, out = tmp_path / "plan.json", tmp_path / "measurement.json"
    plan.write_text(build_plan(model, here, every_layout(model), ranks=4, nodes=2).canonical_json())
    (_, said), _ = _run(nodes, str(plan), "--steps", "10", "--out", str(out))
    measured = read_file(out, Measurement)
    # The throughput verdict depends on how busy this machine is: its rule is tested in test_verdicts.
    assert [verdict for verdict in measured.verdicts if not verdict.passed and verdict.name != "throughput"] == []
    assert "passed  placement: all 19 shards of 7 tables" in said
    assert len(measured.ranks) == 4
    # Ids, vectors and gradients of 25 steps went over the cable.
    assert all(_bytes_received(node) > 2**20 for node in nodes)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("plan.json", "--steps", "0"), "argument --steps: must be a whole number from 1 on (got '0')"),
        (("plan.json", "--steps", "²"), "argument --steps: must be a whole number from 1 on (got '²')"),
        (("plan.json", "--seed", "-1"), "argument --seed: must be a whole number from 0 to 2147483647 (got '-1')"),
        (("plan.json",), "emplace: start it with torchrun, which sets RANK, "),
    ],
)
def test_a_launch_that_can_not_be_is_refused_in_a_line(
    arguments: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("RANK", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("emplace.executor.cluster.die_with", lambda *_: None)
    monkeypatch.setattr("sys.argv", ["cluster", *arguments])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert said in capsys.readouterr().err.splitlines()[-1]


def test_an_output_that_can_not_be_written_is_refused_before_the_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name, value in (("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_WORLD_SIZE", "1"), ("MASTER_PORT", "29500")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("emplace.executor.cluster.die_with", lambda *_: None)
    monkeypatch.setattr("emplace.executor.cluster._plan", lambda _: None)
    monkeypatch.setattr("sys.argv", ["cluster", "plan.json", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert capsys.readouterr().err == f"emplace: {tmp_path}: can't be written: Is a directory\n"


@pytest.mark.usefixtures("own_temporary_folder")
def test_a_plan_for_another_number_of_ranks_is_refused(here: HostSpec, tmp_path: Path) -> None:
    model, plan = make_model("two-ranks"), tmp_path / "plan.json"
    plan.write_text(build_plan(model, here, mixed_layouts(model), ranks=2).canonical_json())
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1"]
    done = subprocess.run(
        [*torchrun, "-m", "emplace.executor.cluster", str(plan)], cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode != 0
    assert "emplace: the plan is for 2 ranks, 2 on each node; torchrun started 1 ranks, 1 on this node" in done.stderr
