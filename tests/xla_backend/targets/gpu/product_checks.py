"""Run HLO texts as a GPU would, in the kernel interpreter (which finds races and accesses out of
bounds), and compare with the evaluator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import xla_backend
from xla_backend.compile_options import CompileOptions
from xla_backend.compile_target import Target
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.parser import parse_module
from xla_backend.kernels.ir import Kernel
from xla_backend.program.plan import Plan
from xla_backend.targets.gpu.architectures import TRIPLE
from xla_backend.targets.gpu.compiler import plan_program


def random_arrays(module: HloModule, seed: int = 0) -> list[np.ndarray]:
    """Small numbers for each parameter, exact in every type."""
    rng = np.random.default_rng(seed)
    assert module.entry is not None
    arrays = []
    for parameter in module.entry.parameters:
        shape = parameter.shape
        low = 0 if shape.element_type.is_unsigned_integral else -3
        numbers = rng.integers(low, 4, shape.dimensions)
        if shape.element_type.is_floating and shape.element_type.bits >= 16:
            numbers = numbers + rng.integers(0, 8, shape.dimensions) / 8
        arrays.append(numbers.astype(shape.element_type.numpy_dtype))
    return arrays


def check(
    text: str,
    *,
    rtol: float = 1e-5,
    arrays: Sequence[np.ndarray] | None = None,
    architecture: str | None = None,
) -> dict[str, Kernel]:
    """The kernels of a program that gives what the evaluator gives, relative to the largest
    element. `architecture`: None: the usual one."""
    arrays = random_arrays(parse_module(text)) if arrays is None else arrays
    wanted = xla_backend.evaluate(parse_module(text), arrays)
    options = _options(architecture)
    executable = xla_backend.compile(parse_module(text), platform="gpu_emulator", options=options)
    got = executable.execute(arrays)
    for g, w in zip(got, wanted, strict=True):
        assert g.dtype == w.dtype and g.shape == w.shape
        wide = np.complex128 if w.dtype.kind == "c" else np.float64
        largest = max(1.0, float(np.abs(w.astype(wide)).max(initial=0)))
        np.testing.assert_allclose(g.astype(wide), w.astype(wide), rtol=rtol, atol=rtol * largest)
    return kernels_of(text, architecture)


def _options(architecture: str | None) -> CompileOptions:
    target = None if architecture is None else Target(TRIPLE, architecture)
    return CompileOptions(verify=True, target=target)


def planned(text: str, architecture: str | None = None) -> Plan:
    return plan_program(parse_module(text), _options(architecture))


def kernels_of(text: str, architecture: str | None = None) -> dict[str, Kernel]:
    return dict(planned(text, architecture).program.kernels)
