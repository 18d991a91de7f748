"""Running a program on NumPy arrays: checks, aligned results, donated arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from xla_backend.hlo.shape import Shape

ALIGNMENT = 64

Run = Callable[[Sequence[int], Sequence[int]], None]


def run_on_arrays(
    name: str,
    run: Run,
    parameters: Sequence[Shape],
    outputs: Sequence[Shape],
    aliases: Mapping[int, int],
    arguments: Sequence[np.ndarray],
) -> list[np.ndarray]:
    """Run a program on NumPy arrays, one per parameter leaf, and return its result leaves.

    Args:
      name: of the program, for errors.
      run: takes the addresses of all parameter leaves and of all result leaves.
      aliases: result leaf -> parameter leaf whose memory it shares; such arguments are copied
        first, so the caller's arrays never change.
    Returns:
      New arrays; tokens are left out.
    Raises:
      ValueError: number, shape or dtype of the arguments is not the program's.
    """
    arrays = [s for s in parameters if s.is_array]
    if len(arguments) != len(arrays):
        raise ValueError(f"program {name!r} takes {len(arrays)} arrays, got {len(arguments)}")
    given = iter(arguments)
    donated = set(aliases.values())
    held: list[np.ndarray] = []
    for i, shape in enumerate(parameters):
        if not shape.is_array:
            held.append(np.empty(0, np.uint8))
            continue
        array = _checked(name, len(held), shape, next(given))
        held.append(array.copy() if i in donated else array)
    results = [
        held[aliases[i]] if i in aliases else aligned_empty(shape)
        for i, shape in enumerate(outputs)
    ]
    run([a.ctypes.data for a in held], [a.ctypes.data for a in results])
    return [array for array, shape in zip(results, outputs) if shape.is_array]


def _checked(name: str, number: int, shape: Shape, argument: np.ndarray) -> np.ndarray:
    array = np.ascontiguousarray(argument).reshape(np.shape(argument))
    if array.shape != shape.dimensions or array.dtype != shape.element_type.numpy_dtype:
        raise ValueError(
            f"argument {number} of program {name!r} must be {shape}, got "
            f"{array.dtype}{list(array.shape)}"
        )
    return array


def aligned_empty(shape: Shape) -> np.ndarray:
    """Memory for one array, aligned as generated code may assume; a token has no bytes."""
    if not shape.is_array:
        return np.empty(0, np.uint8)
    raw = np.empty(shape.byte_size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    dtype = shape.element_type.numpy_dtype
    return raw[start : start + shape.byte_size].view(dtype).reshape(shape.dimensions)
