"""Programs that run on NumPy arrays, wherever their buffers lie."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from xla_backend.runtime.buffer import Buffer
from xla_backend.runtime.client import Device, ExecutionContext, LoadedExecutable, kind_of
from xla_backend.runtime.collective_lines import name_line


class ArrayExecutable(LoadedExecutable):
    """A program that Python runs: `compute` is what it does. Its results have memory of their own,
    donated or not."""

    def compute(self, arrays: Sequence[np.ndarray], context: ExecutionContext) -> list[np.ndarray]:
        """The results, from one array for each parameter; tokens are left out of both."""
        raise NotImplementedError

    def compute_together(
        self, arrays: Sequence[Sequence[np.ndarray]], contexts: Sequence[ExecutionContext]
    ) -> list[list[np.ndarray]]:
        """The results of all participants of a run, each from its arrays."""
        raise NotImplementedError

    def execute(
        self, arguments: list[Any], donated: Container[int], context: ExecutionContext
    ) -> list[Buffer]:
        values = self._values(arguments, donated, context.device)
        return self._results(self.compute(values, context), context.device)

    def execute_together(
        self, arguments: Sequence[list[Any]], donated: Container[int], devices: Sequence[Device]
    ) -> list[list[Buffer]]:
        contexts = self.contexts(devices)
        values = [self._values(given, donated, d) for given, d in zip(arguments, devices)]
        try:
            results = self.compute_together(values, contexts)
        except BaseException as error:
            name_line(error, lambda: self.module)
            raise
        return [self._results(own, device) for own, device in zip(results, devices)]

    def _values(
        self, arguments: list[Any], donated: Container[int], device: Device
    ) -> list[np.ndarray]:
        values = [
            kind_of(shape, device).to_host(buffer)
            for buffer, shape in zip(arguments, self.parameter_shapes)
            if shape.is_array
        ]
        for number in range(len(arguments)):
            if number in donated:
                arguments[number] = None
        return values

    def _results(self, arrays: Sequence[np.ndarray], device: Device) -> list[Buffer]:
        results = iter(arrays)
        nothing = np.zeros(0, np.uint8)
        return [
            kind_of(shape, device).from_host(next(results) if shape.is_array else nothing)
            for shape in self.output_shapes
        ]
