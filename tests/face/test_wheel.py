"""An installed wheel: one import root, beside a program whose own folder has packages called app and solver."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIPPED = ("emplace", "app", "executor", "hardware", "migrations", "placement", "profiler", "runtime", "solver", "studies")
BUILT_WITH = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
NEEDED = (
    "emplace/py.typed",
    "emplace/placement/catalog/models/m1.yaml",
    "emplace/placement/catalog/hosts/zion.yaml",
    "emplace/app/dashboard/templates/plan.html",
    "emplace/app/dashboard/static/emplace.css",
    "emplace/app/dashboard/static/docs.js",
    "emplace/migrations/env.py",
    "emplace/solver/model/problem.py",
    "emplace/torchrec/planner.py",
)
PROGRAM = """
import app, solver, emplace, emplace.app, emplace.solver
from app.plans import asked
from solver.ours import name

plan = emplace.plan("ncf", "zion", **asked)
print(name, plan.status, app.__file__, emplace.__file__, emplace.solver.__file__, sep="|")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that the checkout stays as it is."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built")
    for name in (*SHIPPED, *BUILT_WITH):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so"))
        else:
            shutil.copy(ROOT / name, source / name)
    build = source / "setup.py"
    build.write_text(build.read_text().replace('"-O3"', '"-O0"'))  # what is in it is looked at, not how fast it is
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--wheel-dir", str(built), str(source)], check=True, timeout=120)
    [path] = built.glob("*.whl")
    return path


def test_a_wheel_has_one_import_root_and_every_file_that_is_read(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"emplace"}
    assert set(NEEDED) <= set(names)
    sources = {f"emplace/{path.relative_to(ROOT)}" for folder in SHIPPED[1:] for path in (ROOT / folder).rglob("*.py")}
    assert sources <= set(names)
    suffixes = [name.partition(".")[2] for name in names if name.startswith("emplace/solver/native/")]
    assert sorted(suffixes) == sorted(["py", "pyi", sysconfig.get_config_var("EXT_SUFFIX").lstrip(".")])


def test_it_works_beside_a_program_with_packages_of_the_same_names(wheel: Path, tmp_path: Path) -> None:
    program, installed = tmp_path / "program", tmp_path / "installed"
    for package, module, text in (("app", "plans", 'asked = {"seed": 1}'), ("solver", "ours", 'name = "our solver"')):
        (program / package).mkdir(parents=True)
        (program / package / "__init__.py").touch()
        (program / package / f"{module}.py").write_text(text)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(installed), str(wheel)]
    subprocess.run(install, check=True, timeout=120)
    # Without the checkout's editable install: -S leaves out .pth files, and the dependencies come by their folder alone.
    path = [str(program), str(installed), sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"]]
    (program / "main.py").write_text(f"import sys\nsys.path[:0] = {path!r}\n{PROGRAM}")
    command = [sys.executable, "-S", "-I", str(program / "main.py")]
    done = subprocess.run(command, cwd=program, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    ours, status, app, face, solver = done.stdout.strip().split("|")
    assert (ours, status) == ("our solver", "optimal")
    assert app == str(program / "app" / "__init__.py")
    assert face == str(installed / "emplace" / "__init__.py")
    assert solver == str(installed / "emplace" / "solver" / "__init__.py")
