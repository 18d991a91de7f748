"""The code of a program's kernels on a device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.targets.gpu.cuda.device import CudaDevice
from xla_backend.targets.gpu.generated_code import GeneratedCode
from xla_backend.targets.gpu.group_code import TensorMap
from xla_backend.targets.gpu.kernel_functions import LaunchFunction
from xla_backend.targets.gpu.resident_functions import ResidentFunction

Function = LaunchFunction | ResidentFunction


def all_functions(code: GeneratedCode) -> Iterable[Function]:
    """Those of kernels, and of steps that stay on the device."""
    return chain(*code.functions.values(), code.residents.values())


def waits_for_all(function: Function) -> bool:
    """Whether the blocks of a launch wait for each other: all must be there at once."""
    return isinstance(function, ResidentFunction) and function.blocks > 1


def maps_of(function: Function) -> Sequence[TensorMap]:
    """What launches get of arrays besides addresses; those of steps that stay get nothing."""
    return function.maps if isinstance(function, LaunchFunction) else ()


class LoadedCode:
    """The code on a device, whose driver makes it of PTX.

    Raises:
      RuntimeFailure: the device or its driver does not take it, or a function asks for more than
        a launch can have.
    """

    def __init__(self, code: GeneratedCode, device: CudaDevice) -> None:
        self._device = device
        self._driver = device.cupy.cuda.driver
        self._functions: dict[str, Any] = {}
        self._blocks: dict[str, int] = {}
        functions = list(all_functions(code))
        if not functions:
            return
        self._module = device.cupy.cuda.function.Module()
        with device.active():
            self._module.load(code.ptx.encode())
            for function in functions:
                found = self._functions[function.name] = self._load(function)
                self._blocks[function.name] = self._blocks_of(function, found.ptr)

    def pointer(self, name: str) -> int:
        """What launches call a function."""
        return self._functions[name].ptr

    def blocks(self, name: str) -> int:
        """How many blocks a launch of a function has."""
        return self._blocks[name]

    def _blocks_of(self, function: Function, pointer: int) -> int:
        """As many as are of use; of those that wait for each other, as many as the device holds."""
        if not waits_for_all(function):
            return function.blocks
        each = self._driver.occupancyMaxActiveBlocksPerMultiprocessor(
            pointer, function.threads, function.dynamic_shared
        )
        return min(function.blocks, each * self._device.properties["multiProcessorCount"])

    def _load(self, function: Function) -> Any:
        driver, limits = self._driver, self._device.properties
        found = self._module.get_function(function.name)
        most = driver.funcGetAttribute(driver.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, found.ptr)
        shared, blocks = limits["sharedMemPerBlockOptin"], limits["maxGridSize"][0]
        for wanted, limit, what in (
            (function.blocks, blocks, "blocks"),
            (function.threads, limits["maxThreadsPerBlock"], "threads of a block"),
            (function.threads, most, "threads of a block, for the registers that each takes"),
            (function.dynamic_shared, shared, "bytes of shared memory of a block"),
        ):
            if wanted > limit:
                raise RuntimeFailure(
                    f"function {function.name!r} cannot be launched on {self._device}: it asks for "
                    f"{wanted} {what}, and the device has at most {limit}"
                )
        if function.dynamic_shared:
            attribute = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            driver.funcSetAttribute(found.ptr, attribute, function.dynamic_shared)
        return found
