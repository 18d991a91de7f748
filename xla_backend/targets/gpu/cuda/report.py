"""What there is here of what GPUs need, for `pyjax doctor`."""

from __future__ import annotations

from collections.abc import Iterator

from xla_backend.targets.gpu.cuda import availability
from xla_backend.targets.gpu.cuda.communicators import nccl_distribution
from xla_backend.targets.gpu.cuda.cupy_library import absent_libraries, cuda_version, not_found
from xla_backend.targets.gpu.ptxas import PtxasNotFoundError, find_ptxas, version


def facts() -> Iterator[tuple[str, str]]:
    """What there is of what GPUs need, for `pyjax doctor`."""
    driver = availability.find_driver()
    if driver.version is None:
        yield "driver", f"none ({driver.problem})"
    else:
        yield "driver", f"runs CUDA {availability.dotted(driver.version)}"
    for number, gpu in enumerate(driver.gpus):
        architecture = f"sm_{''.join(map(str, gpu.capability))}"
        yield "gpu", f"{number}: {gpu.name}, {architecture}"
    found = availability.cupy_distribution()
    installed = availability.cupy_is_installed()
    named = f"{found[1]} ({found[0]})" if found else "of an unknown version"
    yield "cupy", named if installed else "not installed"
    if installed:
        absent = list(absent_libraries())
        yield "cuda libraries", not_found(absent) if absent else "found"
        yield "nccl", _exchange()
    yield "ptxas", _assembler()
    lacking = availability.missing()
    yield "cuda", f"not usable: {lacking}" if lacking else "usable"


def _exchange() -> str:
    found = nccl_distribution()
    if found is None:
        return (
            "not installed by pip; programs over several GPUs need it: pip install "
            f"nvidia-nccl-cu{cuda_version()}"
        )
    return f"{found[1]} ({found[0]})"


def _assembler() -> str:
    try:
        ptxas = find_ptxas()
    except PtxasNotFoundError as error:
        return str(error)
    if ptxas is None:
        return "not found; with it, code can be looked at: pip install nvidia-cuda-nvcc-cu12"
    return f"{version(ptxas)} ({ptxas})"
