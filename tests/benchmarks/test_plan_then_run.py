"""The benchmark of plans that are made and then trained: what it says of many. Training itself is the executor's to test."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.plan_then_run import summary


def test_errors_are_of_logarithms_and_the_bias_says_how_sure_it_is() -> None:
    found = summary([{"as_it_is": np.log(1.1), "at_present_speed": 0.1}, {"as_it_is": np.log(1 / 1.1), "at_present_speed": 0.3}])
    assert found["as_it_is"] == pytest.approx({"error": np.log(1.1), "bias": 0.0, "bias_standard_error": np.log(1.1)})
    assert found["at_present_speed"] == pytest.approx({"error": 0.2, "bias": 0.2, "bias_standard_error": 0.1})
