"""What NVIDIA GPUs need on this machine: a driver, a GPU that code can be made for, CuPy, and the
libraries of CUDA that it calls.

Nothing here imports CuPy, and where it is not installed nothing asks the driver either, unless
somebody wants to know what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from xla_backend.targets.gpu.cuda.cupy_library import absent_libraries, not_found
from xla_backend.targets.gpu.cuda.driver import Driver, Gpu, find_driver

OLDEST_CAPABILITY = (8, 0)
_OLDEST_CUDA = (12, 0)
_OLDEST_CUPY = 13
# Of the first driver that runs each version of CUDA, on Linux: table 3 of the release notes of the
# CUDA toolkit.
_DRIVERS = {12: "525.60.13", 13: "580.65.06"}
# The distribution of CuPy, and the version of CUDA that it is built for. `cupy` is built where it
# is installed, for the toolkit that it finds there.
_DISTRIBUTIONS = {
    "cupy-cuda13x": 13,
    "cupy-cuda12x": 12,
    "cupy-cuda11x": 11,
    "cupy": None,
}


def cupy_is_installed() -> bool:
    """Whether there is a package of that name; it is not imported."""
    return find_spec("cupy") is not None


def cupy_distribution() -> tuple[str, str, int | None] | None:
    """Name and version of the installed distribution of CuPy, and the version of CUDA that it is
    built for, if its name says that."""
    for name, cuda in _DISTRIBUTIONS.items():
        try:
            return name, version(name), cuda
        except PackageNotFoundError:
            continue
    return None


def is_usable() -> bool:
    """Whether the platform starts by itself. At no cost where CuPy is not installed."""
    return cupy_is_installed() and not missing()


def missing() -> str:
    """What NVIDIA GPUs lack here, and how to get it; empty if there is nothing."""
    driver = find_driver()
    problems = [*_driver_problems(driver), *_cupy_problems(driver)]
    if cupy_is_installed() and not problems:
        absent = list(absent_libraries())
        problems = [not_found(absent)] if absent else []
    return "; ".join(problems)


def is_supported(gpu: Gpu) -> bool:
    """Whether code can be made for it."""
    return gpu.capability >= OLDEST_CAPABILITY


def unsupported(gpus: tuple[Gpu, ...]) -> str:
    """Why none of some GPUs can be used."""
    named = ", ".join(f"{gpu.name} (sm_{''.join(map(str, gpu.capability))})" for gpu in gpus)
    return (
        f"code is made for sm_80 (Ampere) and newer, and here there is {named}; use the platform "
        "'cpu'"
    )


def _driver_problems(driver: Driver) -> Iterator[str]:
    if driver.version is None:
        needed = ", ".join(f"{d} for CUDA {c}" for c, d in _DRIVERS.items())
        yield (
            f"no NVIDIA driver ({driver.problem}): install one, at least {needed}; a container "
            "needs those of its host (docker run --gpus all)"
        )
    elif driver.version < _OLDEST_CUDA:
        yield (
            f"the NVIDIA driver is too old: it runs CUDA {dotted(driver.version)}, and CUDA 12.0 "
            f"is needed; install driver {_DRIVERS[12]} or newer"
        )
    elif not driver.gpus:
        yield (
            f"the NVIDIA driver finds no GPU ({driver.problem}): see what `nvidia-smi` says, and "
            "whether CUDA_VISIBLE_DEVICES hides them"
        )
    elif not any(map(is_supported, driver.gpus)):
        yield unsupported(driver.gpus)


def _cupy_problems(driver: Driver) -> Iterator[str]:
    runs = driver.version or (0, 0)
    extra = "cuda13" if runs >= (13, 0) else "cuda12"
    if not cupy_is_installed():
        other = "" if driver.version else ' (or "pyjax[cuda13]", for driver 580.65.06 or newer)'
        yield f'CuPy is not installed: pip install "pyjax[{extra}]"{other}'
        return
    found = cupy_distribution()
    if found is None:
        return
    name, number, cuda = found
    if int(number.partition(".")[0]) < _OLDEST_CUPY:
        yield f'CuPy {number} is too old: pip install --upgrade "pyjax[{extra}]"'
    elif cuda is not None and cuda < _OLDEST_CUDA[0]:
        yield (
            f"{name} is for CUDA {cuda}, which is too old: pip uninstall {name}, then "
            f'pip install "pyjax[{extra}]"'
        )
    elif cuda is not None and driver.version is not None and _OLDEST_CUDA <= runs < (cuda, 0):
        yield (
            f"{name} is for CUDA {cuda}, and the driver runs CUDA {dotted(runs)}: pip uninstall "
            f'{name}, then pip install "pyjax[{extra}]"; or install driver {_DRIVERS[cuda]} or '
            "newer"
        )


def dotted(number: tuple[int, int]) -> str:
    """A version as it is written."""
    return ".".join(map(str, number))
