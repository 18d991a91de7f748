"""Flat arrays to parameter values of a module and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xla_backend.hlo.evaluator.values import flatten_value, unflatten_value
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.shape import UNBOUNDED, Shape

Value = Any


def bind_arguments(module: HloModule, args: Sequence[np.ndarray]) -> list[Value]:
    """One value per parameter of the entry, from flat leaves in order.

    Raises:
      ValueError: number, type or shape of an argument differs from the parameter's.
    """
    assert module.entry is not None, f"module {module.name} has no entry computation"
    remaining = list(args)
    arguments = []
    for parameter in module.entry.parameters:
        leaves = [s for s in parameter.shape.flatten() if s.is_array]
        taken = [np.asarray(x) for x in remaining[: len(leaves)]]
        remaining = remaining[len(leaves) :]
        for value, shape in zip(taken, leaves):
            if value.dtype != shape.element_type.numpy_dtype or not _fits(value, shape):
                raise ValueError(
                    f"parameter {parameter.parameter_number} of {module.name} is {shape}, "
                    f"got {value.dtype} {list(value.shape)}"
                )
        if len(taken) != len(leaves):
            raise ValueError(f"{module.name} takes more than the {len(args)} arguments given")
        arguments.append(unflatten_value(parameter.shape, taken))
    if remaining:
        raise ValueError(f"{module.name} got {len(remaining)} arguments too many")
    return arguments


def _fits(value: np.ndarray, shape: Shape) -> bool:
    """Whether the sizes are the shape's; a dynamic dimension takes any size up to its bound."""
    if value.shape == shape.dimensions:
        return True
    return value.ndim == shape.rank and all(
        size == bound or (dynamic and (size <= bound or bound == UNBOUNDED))
        for size, bound, dynamic in zip(value.shape, shape.dimensions, shape.dynamic_dimensions)
    )


def result_leaves(value: Value) -> list[np.ndarray]:
    """Array leaves of a result in order, row-major and not shared with anything."""
    return [np.array(leaf, order="C") for leaf in flatten_value(value) if leaf is not None]
