"""What the tests of the operator tables do with a row: run it in every mode, and
differentiate it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pyjax
import xla_backend
from pyjax.api.make_jaxpr import make_jaxpr
from pyjax.core.tree_util import tree_leaves
from pyjax.interpreters.hlo import lower_jaxpr_to_module
from tests.op_table import Op
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.evaluator.interpreter import evaluate
from xla_backend.hlo.module import HloModule
from xla_backend.runtime.client import ExecutionContext
from xla_backend.runtime.custom_calls import custom_calls_in
from xla_backend.runtime.hlo_client import host_device
from xla_backend.runtime.host_libraries import lapack_calls as lapack_calls  # registers them

_CUSTOM_CALLS = custom_calls_in(ExecutionContext(host_device()))


def eager(fn: Callable[..., Any], args: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [np.asarray(x) for x in tree_leaves(fn(*args))]


def jitted(fn: Callable[..., Any], args: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [np.asarray(x) for x in tree_leaves(pyjax.jit(fn)(*args))]


def vmapped(fn: Callable[..., Any], args: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Over a stack of two examples, the first of which is what the others run on."""
    stacked = [np.stack([x, x]) for x in args]
    outs = pyjax.vmap(lambda *xs: tree_leaves(fn(*xs)))(*stacked)
    first, second = ([np.asarray(o)[i] for o in outs] for i in range(2))
    for a, b in zip(first, second):
        np.testing.assert_array_equal(a, b)
    return first


def evaluated(fn: Callable[..., Any], args: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Through the NumPy evaluator of HLO."""
    return evaluate(_module(fn, args), list(args), custom_calls=_CUSTOM_CALLS)


def emulated(fn: Callable[..., Any], args: Sequence[np.ndarray]) -> list[np.ndarray]:
    """As scheduled for the CPU, in Python: accesses out of bounds and races are errors."""
    return _emulated_on("emulator", fn, args)


def emulated_gpu(fn: Callable[..., Any], args: Sequence[np.ndarray]) -> list[np.ndarray]:
    """As scheduled for a GPU, with the same errors."""
    return _emulated_on("gpu_emulator", fn, args)


def _emulated_on(
    platform: str, fn: Callable[..., Any], args: Sequence[np.ndarray]
) -> list[np.ndarray]:
    module, options = _module(fn, args, platform), CompileOptions(verify=True)
    return xla_backend.compile(module, platform, options).execute(list(args))


def _module(fn: Callable[..., Any], args: Sequence[np.ndarray], platform: str = "cpu") -> HloModule:
    closed = make_jaxpr(lambda *xs: tree_leaves(fn(*xs)))(*args)
    return lower_jaxpr_to_module(closed, "op", platform=platform)


RUNNERS = [eager, jitted, vmapped, evaluated]


def assert_close(got: np.ndarray, want: Any, tolerance: float) -> None:
    """Equal up to `tolerance` of the largest finite element; nan and inf in the same places."""
    want = np.asarray(want)
    assert got.shape == want.shape, f"shape {got.shape}, expected {want.shape}"
    assert got.dtype.kind == want.dtype.kind or (
        want.dtype.kind in "fcV" and got.dtype.kind in "fcV"
    ), f"dtype {got.dtype}, expected kind of {want.dtype}"
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want)
        return
    kind = np.complex128 if got.dtype.kind == "c" else np.float64
    got, want = got.astype(kind), want.astype(kind)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=0.02 * tolerance * _scale(want))


def _scale(x: np.ndarray) -> float:
    finite = np.abs(x[np.isfinite(x)])
    return float(finite.max()) if finite.size else 0.0


# -- gradients -------------------------------------------------------------------------------------


def _wide(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "f":
        return x.astype(np.float64)
    return x.astype(np.complex128) if x.dtype.kind == "c" else x


def _inner(u: Sequence[Any], v: Sequence[Any]) -> float:
    """Real part of the bilinear pairing: how cotangents act on tangents."""
    return float(sum(np.sum(np.real(np.asarray(a) * np.asarray(b))) for a, b in zip(u, v)))


def _random_like(rng: np.random.Generator, x: Any) -> np.ndarray:
    x = np.asarray(x)
    value = rng.normal(size=x.shape)
    if x.dtype.kind == "c":
        value = value + 1j * rng.normal(size=x.shape)
    return value.astype(x.dtype)


def check_gradients(op: Op, dtype: np.dtype, shapes: Any, order: int) -> None:
    """<u, J v> from jvp, from vjp and from central differences agree, in float64, for `order`
    levels.
    """
    args = [_wide(x) for x in op.draw(dtype, shapes)]
    active = op.grad_args
    if active is None:
        active = [i for i, x in enumerate(args) if x.dtype.kind in "fc"]

    def of_active(*xs: Any) -> list[Any]:
        full = list(args)
        for i, x in zip(active, xs):
            full[i] = x
        return [o for o in tree_leaves(op.fn(*full)) if np.dtype(o.dtype).kind in "fc"]

    _check_level(of_active, [args[i] for i in active], order, op)


def _check_level(fn: Callable[..., Any], primals: list[np.ndarray], order: int, op: Op) -> None:
    rng = np.random.default_rng(order)
    tangents = [_random_like(rng, x) for x in primals]
    h = 1e-5
    plus = fn(*[x + h * t for x, t in zip(primals, tangents)])
    minus = fn(*[x - h * t for x, t in zip(primals, tangents)])
    cotangents = [_random_like(rng, o) for o in plus]
    slopes = [(np.asarray(p) - np.asarray(m)) / (2 * h) for p, m in zip(plus, minus)]
    numeric = _inner(cotangents, slopes)
    size = 1.0 + sum(float(np.sum(np.abs(u * s))) for u, s in zip(cotangents, slopes))
    tolerance = max(op.grad_tol, 1e-7) * size * 10
    if "fwd" in op.modes:
        _, outs = pyjax.jvp(fn, tuple(primals), tuple(tangents))
        assert abs(_inner(cotangents, outs) - numeric) <= tolerance, "jvp differs from differences"
    if "rev" in op.modes:
        _, pull = pyjax.vjp(fn, *primals)
        back = pull([np.asarray(c) for c in cotangents])
        assert abs(_inner(back, tangents) - numeric) <= tolerance, "vjp differs from differences"
    if order > 1:

        def derivative(*xs: Any) -> list[Any]:
            if "rev" in op.modes:
                return list(pyjax.vjp(fn, *xs)[1](cotangents))
            return list(pyjax.jvp(fn, xs, tuple(tangents))[1])

        _check_level(derivative, primals, order - 1, op)
