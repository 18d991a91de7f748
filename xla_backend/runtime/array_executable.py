"""Programs that run on NumPy arrays, wherever their buffers lie."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from xla_backend.runtime.buffer import Buffer
from xla_backend.runtime.client import ExecutionContext, LoadedExecutable, kind_of


class ArrayExecutable(LoadedExecutable):
    """A program that Python runs: `compute` is what it does. Its results have memory of their own,
    donated or not."""

    def compute(self, arrays: Sequence[np.ndarray], context: ExecutionContext) -> list[np.ndarray]:
        """The results, from one array for each parameter; tokens are left out of both."""
        raise NotImplementedError

    def execute(
        self, arguments: list[Any], donated: Container[int], context: ExecutionContext
    ) -> list[Buffer]:
        device = context.device
        values = [
            kind_of(shape, device).to_host(buffer)
            for buffer, shape in zip(arguments, self.parameter_shapes)
            if shape.is_array
        ]
        for number in range(len(arguments)):
            if number in donated:
                arguments[number] = None
        results = iter(self.compute(values, context))
        nothing = np.zeros(0, np.uint8)
        return [
            kind_of(shape, device).from_host(next(results) if shape.is_array else nothing)
            for shape in self.output_shapes
        ]
