"""The part of Emplace that is compiled: `emplace.solver.native`. pyproject.toml has all the rest."""

from pathlib import Path

from pybind11.setup_helpers import Pybind11Extension
from setuptools import setup

FOLDER = Path("emplace/solver/native")

setup(
    ext_modules=[
        Pybind11Extension(
            "emplace.solver.native._native",
            [str(FOLDER / "module.cpp")],
            depends=sorted(map(str, FOLDER.glob("*.hpp"))),
            cxx_std=17,
            # The same answers on every machine: nothing fused, nothing reordered, nothing that only some processors have.
            extra_compile_args=["-O3", "-ffp-contract=off"],
        )
    ]
)
