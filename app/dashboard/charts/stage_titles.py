"""What people call the stages of a step."""

from __future__ import annotations

from emplace.placement.stages import Stage

OVERHEAD = "overhead"

STAGE_TITLES = {
    Stage.INPUT_DIST: "ids all-to-all",
    Stage.LOOKUP_FORWARD: "lookup forward",
    Stage.OUTPUT_DIST: "vectors all-to-all",
    Stage.DENSE: "dense layers",
    Stage.GRADIENT_DIST: "gradients all-to-all",
    Stage.LOOKUP_BACKWARD: "lookup backward",
    Stage.ALL_REDUCE: "all-reduce",
}
