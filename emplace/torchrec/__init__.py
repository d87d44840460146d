"""Emplace inside a TorchRec program: a planner that stands where EmbeddingShardingPlanner does, and what it knows of a live module.

    from emplace.torchrec import EmplaceShardingPlanner

    plan = EmplaceShardingPlanner(topology=topology, batch_size=2048).collective_plan(model, sharders, pg)

Importing this imports torch and torchrec; `import emplace` does not.
"""

from emplace.torchrec.describe import describe
from emplace.torchrec.estimators import EmplacePerfEstimator, EmplaceStorageEstimator
from emplace.torchrec.fbgemm_report import FbgemmReport, read_fbgemm_reports
from emplace.torchrec.observation import Observation
from emplace.torchrec.observe import Observer, observe
from emplace.torchrec.planner import EmplaceShardingPlanner
from emplace.torchrec.reservation import measure_reservation
from emplace.torchrec.resharding import reshard

__all__ = [
    "EmplacePerfEstimator",
    "EmplaceShardingPlanner",
    "EmplaceStorageEstimator",
    "FbgemmReport",
    "Observation",
    "Observer",
    "describe",
    "measure_reservation",
    "observe",
    "read_fbgemm_reports",
    "reshard",
]
