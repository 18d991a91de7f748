"""Calls of libraries on pretended GPUs do what their contracts say."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.xla_backend.targets.gpu.cuda_programs import on
from xla_backend.hlo.shape import Shape
from xla_backend.program.ir import Library, Slice, Space
from xla_backend.runtime.client import ExecutionContext
from xla_backend.targets.gpu.cuda.commands import Run
from xla_backend.targets.gpu.cuda.layout import Place
from xla_backend.targets.gpu.cuda.library_calls import library_command
from xla_backend.targets.gpu.routines import ROUTINES


def run_on(device: Any, routine: str, operands: list[Any]) -> list[np.ndarray]:
    """What the arrays among the operands hold afterwards."""
    arrays = [operand for operand in operands if isinstance(operand, np.ndarray)]
    buffers = on(device, *arrays)
    numbers = iter(range(len(arrays)))
    step = Library(
        "r",
        0.0,
        routine,
        tuple(
            Slice(Space.ARGUMENT, next(numbers), 0, Shape.of(o)) if isinstance(o, np.ndarray) else o
            for o in operands
        ),
    )
    command = library_command(step, lambda s: Place(s.number, s.offset), device)
    with device.active():
        bases = [buffer.address for buffer in buffers]
        command.run(Run(device, bases, ExecutionContext(device), device.stream))
    return [buffer.kind.to_host(buffer) for buffer in buffers]


def check(device: Any, routine: str, operands: list[Any], tolerance: float) -> None:
    """The routine does what the reference of its contract does."""
    want = [o.copy() if isinstance(o, np.ndarray) else o for o in operands]
    ROUTINES[routine].reference(*want)
    arrays = [o for o in want if isinstance(o, np.ndarray)]
    for got, expected in zip(run_on(device, routine, operands), arrays, strict=True):
        np.testing.assert_allclose(
            got.astype(np.complex128), expected.astype(np.complex128), tolerance, tolerance
        )
