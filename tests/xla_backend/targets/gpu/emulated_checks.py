"""Plan HLO text for a GPU, run it in the emulator, compare with the evaluator; and kernels with
planted mistakes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from native_checks import assert_close

import xla_backend
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.shape import Shape
from xla_backend.kernels.interpreter import run_kernel
from xla_backend.kernels.ir import Barrier, If, Kernel, Loop, Statement
from xla_backend.kernels.verifier import verify_kernel


def check_emulated(
    module: HloModule,
    arguments: Sequence[np.ndarray],
    *,
    scale: float = 1.0,
    options: CompileOptions | None = None,
) -> dict[str, Kernel]:
    """Evaluate, plan, run, compare all outputs; returns the kernels of the program."""
    assert module.entry is not None and module.entry.root is not None
    shapes = module.entry.root.shape.flatten()
    want = evaluate(module, list(arguments))
    options = options or CompileOptions(verify=True)
    executable = xla_backend.compile(module, "gpu_emulator", options)
    for g, w, s in zip(executable.execute(list(arguments)), want, shapes, strict=True):
        assert_close(np.asarray(g), w, s.element_type, scale)
    return dict(executable.loaded.plan.program.kernels)


def in_any_order(
    kernel: Kernel, operands: Sequence[np.ndarray], shapes: Sequence[Shape]
) -> list[np.ndarray]:
    """The results of a kernel, which are the same bits whatever the order of its blocks."""
    verify_kernel(kernel)
    first = run_kernel(kernel, operands, shapes)
    for order in (lambda n: range(n - 1, -1, -1), np.random.default_rng(0).permutation):
        again = run_kernel(kernel, operands, shapes, grid_order=order)
        for a, b in zip(first, again):
            assert a.tobytes() == b.tobytes()
    return first


def barriers(statements: list[Statement]) -> Iterator[tuple[list[Statement], int]]:
    """The bodies that hold barriers, and where."""
    for i, s in enumerate(statements):
        if isinstance(s, Barrier):
            yield statements, i
        elif isinstance(s, Loop | If):
            yield from barriers(s.body)
