"""Programs that run on NumPy arrays, behind the interface of those that take addresses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xla_backend.runtime.buffer import memory_view
from xla_backend.runtime.executable import LoadedExecutable


class ArrayExecutable(LoadedExecutable):
    """A program that Python runs: `run_arrays` is what it does."""

    def run_arrays(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The results, from one array for each parameter; tokens are left out of both."""
        raise NotImplementedError

    def run(self, arguments: Sequence[int], outputs: Sequence[int]) -> None:
        values = [
            memory_view(address, shape.dimensions, shape.element_type.numpy_dtype, None)
            for address, shape in zip(arguments, self.parameter_shapes)
            if shape.is_array
        ]
        results = iter(self.run_arrays(values))
        for address, shape in zip(outputs, self.output_shapes):
            if shape.is_array and (value := next(results)).nbytes:
                dtype = shape.element_type.numpy_dtype
                np.copyto(memory_view(address, shape.dimensions, dtype, None), value)
