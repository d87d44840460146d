"""Which versions are installed of the packages that times depend on, without importing them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = {"torch": ("torch",), "torchrec": ("torchrec",), "fbgemm": ("fbgemm-gpu-cpu", "fbgemm-gpu"), "numpy": ("numpy",)}


def software_versions() -> dict[str, str]:
    """Versions of what is installed. The CPU and the CUDA build of FBGEMM have different names."""
    found = {name: next(filter(None, map(_version, packages)), None) for name, packages in _PACKAGES.items()}
    return {name: installed for name, installed in found.items() if installed is not None}


def other_software(measured_with: Mapping[str, str]) -> str:
    """How what is installed differs from what times were measured with, in words; empty where it does not."""
    installed = software_versions()
    differing = [name for name, then in measured_with.items() if installed.get(name, then) != then]
    return ", ".join(f"{name} {measured_with[name]} ({installed[name]} is installed here)" for name in differing)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
