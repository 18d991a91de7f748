"""CuPy and the CUDA libraries that it calls, on first use: the only place that imports them."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.process.bounded_cache import once

# What CuPy loads, and the distribution that brings it (of CUDA 12 with a suffix). CuPy makes code
# for its own functions with the last one.
_DISTRIBUTIONS = {
    "cublas": "nvidia-cublas",
    "cusolver": "nvidia-cusolver",
    "cufft": "nvidia-cufft",
    "nvrtc": "nvidia-cuda-nvrtc",
}
_SUFFIXES = ("", "-cu12")
_LOADER = "cuda.pathfinder"


@once
def load_cupy() -> Any:
    """The library.

    Raises:
      ImportError: it is not installed, or something that it needs is not.
    """
    import cupy

    return cupy


@once
def load_library(name: str) -> Any:
    """CuPy's module of one of CUDA's libraries: cublas, cusolver, cufft.

    Raises:
      RuntimeFailure: the library is not found.
    """
    try:
        return getattr(load_cupy().cuda, name)
    except ImportError as error:
        raise RuntimeFailure(f"{not_found([name])} ({error})") from error


def not_found(names: list[str]) -> str:
    """What to say of libraries that CuPy does not find."""
    files = ", ".join(f"lib{name}" for name in names)
    return (
        f"CuPy does not find CUDA's {files}, which pip installs with it only when asked to: pip "
        f'install "pyjax[cuda{cuda_version()}]"'
    )


def cuda_version() -> str:
    """The version of CUDA that the installed CuPy is for, as names of distributions have it."""
    try:
        version("cupy-cuda12x")
    except PackageNotFoundError:
        return "13"
    return "12"


def absent_libraries() -> Iterator[str]:
    """Names of the libraries that CuPy would not find. Nothing is loaded where pip knows of them;
    elsewhere what CuPy loads them with is asked. Older versions of CuPy look in ways of their own,
    and nothing is said of those."""
    unknown = [name for name, owner in _DISTRIBUTIONS.items() if not _is_installed(owner)]
    if not unknown or find_spec("cuda") is None or find_spec(_LOADER) is None:
        return
    loader = importlib.import_module(_LOADER)
    for name in unknown:
        try:
            loader.load_nvidia_dynamic_lib(name)
        except (loader.DynamicLibNotFoundError, OSError):
            yield name


def _is_installed(distribution: str) -> bool:
    for suffix in _SUFFIXES:
        try:
            version(distribution + suffix)
        except PackageNotFoundError:
            continue
        return True
    return False
