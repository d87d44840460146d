"""Sweeps that are measured too: refused where this machine can't, trained where it can, and drawn."""

from __future__ import annotations

import csv
import json
import math
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image

from emplace.app.cli.output import as_text
from emplace.app.reports.png import png_of
from emplace.app.reports.sweep_csv import sweep_csv
from emplace.app.reports.sweep_svg import sweep_svg
from emplace.app.reports.sweep_text import sweep_view
from emplace.studies.measured import PointMeasurement, prediction_error
from emplace.studies.sweep import Sweep
from tests.app.cli.command import Emplace, write_model
from tests.app.cli.conftest import emplace_here
from tests.app.stored_studies import a_sweep, sweep_figures

__all__ = ["emplace_here"]


def measured(step_us: float, ratio: float, slowness: float | None = None) -> PointMeasurement:
    return PointMeasurement(
        step_time_us=step_us,
        step_range_us=(step_us * 0.9, step_us * 1.2),
        throughput=1e6 / step_us,
        predicted_over_measured=ratio,
        slowness=slowness,
        verified=ratio < 1.5,
    )


@pytest.fixture(scope="module")
def drawn() -> Sweep:
    """Two batches on two hosts, of which the first was measured."""
    asked = a_sweep(64, 128)
    found = asked.study().answer(sweep_figures(asked))
    assert isinstance(found, Sweep)
    points = [measured(2e3, 0.5), measured(3e3, 2.0, 2.0)]
    with_points = [point.model_copy(update={"measured": each}) for point, each in zip(found.points, [*points, None, None], strict=True)]
    return found.model_copy(update={"points": tuple(with_points), "prediction_error": prediction_error(points)})


def test_errors_are_factors_either_way(drawn: Sweep) -> None:
    error = drawn.prediction_error
    assert error is not None
    assert error.geometric_mean == pytest.approx(1.0)
    assert error.worst == pytest.approx(1.0)
    assert error.at_present_speed == pytest.approx(math.sqrt(2 * 4) - 1)
    assert (error.points, error.not_verified) == (2, 1)
    assert prediction_error([]) is None


def test_one_figure_has_both(drawn: Sweep) -> None:
    def tags(sweep: Sweep) -> list[dict[str, str]]:
        return [dict(part.attrib) for part in ElementTree.fromstring(sweep_svg(sweep)).iter() if part.tag.endswith(("circle", "polyline"))]

    rings = [each for each in tags(drawn) if each.get("fill") == "white"]
    assert len(rings) == 2
    assert len([each for each in tags(drawn) if "stroke-dasharray" in each]) == 1
    bare = drawn.model_copy(update={"points": tuple(point.model_copy(update={"measured": None}) for point in drawn.points)})
    assert "measured" not in sweep_svg(bare)
    assert len(tags(bare)) == len(tags(drawn)) - 3


def test_tables_have_both(drawn: Sweep) -> None:
    rows = list(csv.DictReader(StringIO(sweep_csv(drawn))))
    assert [row["predicted_over_measured"] for row in rows] == ["0.5", "2.0", "", ""]
    text = as_text(sweep_view(drawn))
    assert "geometric mean error 100.0% (182.8% at the machine's present speed), worst 100.0%, of 2 points; 1 not verified" in text


def test_a_png_has_the_words_of_its_svg(drawn: Sweep) -> None:
    """Text is left out silently where no font is found."""
    picture = Image.open(BytesIO(png_of(sweep_svg(drawn)))).convert("L")
    legend = picture.crop((picture.width - 260, 20, picture.width, 60))
    darkest, _ = legend.getextrema()
    assert picture.width > 1200
    assert isinstance(darkest, int)
    assert darkest < 200


@pytest.mark.torch
def test_points_are_trained_and_set_beside_predictions(emplace_here: Emplace, tmp_path: Path) -> None:
    write_model(tmp_path / "small.json")
    asked = ("sweep", "small.json", "--host", "local", "--ranks", "1", "--vary", "/local_batch_size=64,256", "--format", "json")
    done = emplace_here(*asked, "--run", "--steps", "6", "--work-limit", "0.2", "--processes", "1")
    assert done.returncode == 0, done.stderr
    found = Sweep.model_validate(json.loads(done.stdout))
    points = [point.measured for point in found.points if point.measured is not None]
    assert len(points) == 2
    for point, figures in zip(points, [point.figures for point in found.points], strict=True):
        assert point.step_time_us * point.predicted_over_measured == pytest.approx(figures.step_time_us)
        assert point.step_range_us[0] <= point.step_time_us <= point.step_range_us[1]
    assert points[1].throughput == pytest.approx(256e6 / points[1].step_time_us)
    assert found.prediction_error == prediction_error(points)


VARIED = ["--vary", "/local_batch_size=64,128"]
REFUSED: dict[str, tuple[list[str], str]] = {
    "another machine": (["--host", "cpu-dual-socket", *VARIED], "cpu-dual-socket is another: give --host local alone"),
    "a varied host": (["--host", "local", "--vary", "/node/devices/*/memory_bandwidth=x1,x2"], "varies the host"),
    "an optimizer without kernels here": (["--host", "local", "--vary", "/optimizer=sgd,adam"], "can't train small: optimizer adam"),
    "too few steps": (["--host", "local", *VARIED, "--steps", "5"], "--steps: (document): must be at least 6"),
}


@pytest.mark.torch
@pytest.mark.parametrize("case", REFUSED)
def test_what_this_machine_can_not_train_is_refused(
    emplace_here: Emplace, tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def solved(*_: Any) -> None:
        raise AssertionError("solved")

    monkeypatch.setattr("emplace.studies.measuring.solve_plans", solved)
    write_model(tmp_path / "small.json")
    arguments, said = REFUSED[case]
    done = emplace_here("sweep", "small.json", *arguments, "--run")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_png_needs_a_file_and_steps_need_a_run(emplace_here: Emplace) -> None:
    asked = ("sweep", "suite", "--host", "cpu-dual-socket", "--vary", "/sparse=4")
    assert "say with --out where to write it" in emplace_here(*asked, "--format", "png").stderr
    assert "give --run too" in emplace_here(*asked, "--steps", "9").stderr
