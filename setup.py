"""The part of Emplace that is compiled: `emplace.solver.native`. pyproject.toml has all the rest."""

from pathlib import Path

from pybind11.setup_helpers import Pybind11Extension, build_ext
from setuptools import Extension, setup
from setuptools.errors import CCompilerError, CompileError, ExecError, PlatformError

FOLDER = Path("emplace/solver/native")
NEEDED = "Emplace is built with a C++17 compiler and Python's headers. On Debian and Ubuntu: apt-get install g++ python3-dev"


class BuildNative(build_ext):
    """Says what is missing where it can't be compiled."""

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except (CCompilerError, ExecError, PlatformError) as error:
            raise CompileError(f"{error}\n{NEEDED}") from error


setup(
    cmdclass={"build_ext": BuildNative},
    ext_modules=[
        Pybind11Extension(
            "emplace.solver.native._native",
            [str(FOLDER / "module.cpp")],
            depends=sorted(map(str, FOLDER.glob("*.hpp"))),
            cxx_std=17,
            # The same answers on every machine: nothing fused, nothing reordered, nothing that only some processors have.
            extra_compile_args=["-O3", "-ffp-contract=off"],
        )
    ],
)
