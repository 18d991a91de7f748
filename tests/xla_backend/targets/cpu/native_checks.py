"""Compile HLO text for the CPU, run it, compare with the evaluator (and, for small programs, the
loop interpreter)."""

from __future__ import annotations

import io

import numpy as np
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options
from filecheck.parser import Parser, pattern_for_opts

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.from_hlo.lower import can_lower, lower
from xla_backend.kernels.interpreter import run_kernel
from xla_backend.kernels.ir import Kernel
from xla_backend.targets.cpu.compiler import compile_module
from xla_backend.targets.cpu.executable import CpuExecutable
from xla_backend.targets.cpu.pipeline import build_pipeline

_TOLERANCE = {
    P.F64: 1e-13, P.F32: 4e-6, P.F16: 2e-3, P.BF16: 1.6e-2, P.C64: 1e-5, P.C128: 1e-12,
    P.F8E5M2: 0.3, P.F8E4M3FN: 0.15, P.F8E4M3: 0.15,
}  # fmt: skip


def module_of(body: str, called: str = "") -> HloModule:
    """A module whose entry has the given lines; the last must be the ROOT."""
    return parse_module(f"HloModule m\n{called}\nENTRY main {{\n{body}\n}}\n")


def random_argument(
    shape: Shape, rng: np.random.Generator, low: float = -3.0, high: float = 3.0
) -> np.ndarray:
    """Values of any element type; small integers for integer types."""
    type, dims = shape.element_type, shape.dimensions
    if type is P.PRED:
        return rng.random(dims) < 0.5
    if type.is_complex:
        value = rng.uniform(low, high, dims) + 1j * rng.uniform(low, high, dims)
        return np.asarray(value, type.numpy_dtype)
    if type.is_floating:
        return np.asarray(rng.uniform(low, high, dims)).astype(type.numpy_dtype)
    bottom = 0 if type.is_unsigned_integral else -4
    return np.asarray(rng.integers(bottom, 5, dims)).astype(type.numpy_dtype)


def arguments_of(
    module: HloModule, seed: int = 0, low: float = -3.0, high: float = 3.0
) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    assert module.entry is not None
    return [
        random_argument(leaf, rng, low, high)
        for p in module.entry.parameters
        for leaf in p.shape.flatten()
    ]


def assert_close(got: np.ndarray, want: np.ndarray, type: P, scale: float = 1.0) -> None:
    """Equal for integers; within a few roundings (relative to the largest value) for floats."""
    assert got.shape == want.shape and got.dtype == want.dtype, (
        got.shape,
        want.shape,
        got.dtype,
        want.dtype,
    )
    if not (type.is_floating or type.is_complex):
        np.testing.assert_array_equal(got, want)
        return
    wide = np.complex128 if type.is_complex else np.float64
    g, w = got.astype(wide), want.astype(wide)
    tolerance = _TOLERANCE.get(type, 0.3) * scale
    np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance, equal_nan=True)


def fused(body: str, called: str = "") -> tuple[Kernel, list[np.ndarray], list[np.ndarray]]:
    """The kernel of a program that is one fusion, its operands, and what it gives."""
    module = module_of(body, called)
    arguments = arguments_of(module)
    build_pipeline(CompileOptions()).run(module)
    (node,) = (n for n in module.entry if n.opcode is Opcode.FUSION)
    kernel = lower(node, "k")
    sources = [o.operands[0] if o.opcode is Opcode.RESHAPE else o for o in node.operands]
    values = [arguments[o.parameter_number] for o in sources]
    return kernel, values, run_kernel(kernel, values, node.shape.flatten())


def check_native(
    module: HloModule,
    arguments: list[np.ndarray] | None = None,
    *,
    scale: float = 1.0,
    seed: int = 0,
) -> CpuExecutable:
    """Evaluate, compile, run, compare all outputs."""
    if arguments is None:
        arguments = arguments_of(module, seed)
    want = evaluate(module, arguments)
    executable = compile_module(module, CompileOptions())
    got = executable.run_arrays(arguments)
    assert len(got) == len(want)
    shapes = [s for s in executable.output_shapes if s.is_array]
    for g, w, s in zip(got, want, shapes):
        assert_close(g, w, s.element_type, scale)
    return executable


def check_interpreter(module: HloModule, arguments: list[np.ndarray], scale: float = 1.0) -> None:
    """Lower the root as a lone kernel and interpret it: the loop IR alone against the evaluator."""
    want = evaluate(module, arguments)
    assert module.entry is not None and module.entry.root is not None
    root = module.entry.root
    assert can_lower(root)
    values = [_operand_value(o, arguments) for o in root.operands]
    kernel = lower(root, "k")
    shapes = root.shape.flatten()
    got = run_kernel(kernel, values, shapes)
    for g, w, s in zip(got, want, shapes):
        assert_close(g, w, s.element_type, scale)


def check_text(text: str, checks: str) -> None:
    """Match CHECK lines of `checks` in order against text."""
    options = parse_argv_options(["filecheck", "-"])
    parser = Parser(options, io.StringIO(checks), *pattern_for_opts(options))
    matcher = Matcher(options, FInput("loops", text), parser)
    assert matcher.run() == 0, text


def _operand_value(node, arguments):  # type: ignore[no-untyped-def]
    return node.literal_array if node.is_constant else arguments[node.parameter_number]
