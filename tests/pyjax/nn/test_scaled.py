"""Products of operands with a scale for each block: lax.scaled_dot and nn.scaled_*."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax, nn

RNG = np.random.RandomState(0)


def spread(x: Any, scales: Any) -> np.ndarray:
    """x times its scales, in float64."""
    wide = np.asarray(scales).astype(np.float64)
    for axis, (size, count) in enumerate(zip(x.shape, wide.shape, strict=True)):
        wide = np.repeat(wide, size // count, axis)
    return np.asarray(x).astype(np.float64) * wide


def operands(dtype: Any, *shape: int) -> Any:
    return jnp.asarray(RNG.randn(*shape), jnp.float32).astype(dtype)


def scales(dtype: Any, *shape: int) -> Any:
    return jnp.asarray(2.0 ** RNG.randint(-3, 4, shape), jnp.float32).astype(dtype)


FORMATS = [
    (jnp.float8_e4m3fn, jnp.float8_e8m0fnu),
    (jnp.float8_e5m2, jnp.float8_e8m0fnu),
    (jnp.float4_e2m1fn, jnp.float8_e4m3fn),
    (jnp.float32, jnp.float32),
]


@pytest.mark.parametrize("dtype, scale_dtype", FORMATS)
def test_scaled_dot(dtype: Any, scale_dtype: Any) -> None:
    lhs, rhs = operands(dtype, 5, 32), operands(dtype, 32, 3)
    s, t = scales(scale_dtype, 5, 4), scales(scale_dtype, 2, 3)
    cases = [({"lhs_scale": s, "rhs_scale": t}, spread(lhs, s) @ spread(rhs, t))]
    cases.append(({"rhs_scale": t}, np.asarray(lhs).astype(np.float64) @ spread(rhs, t)))
    for keywords, expected in cases:
        found = lax.scaled_dot(lhs, rhs, **keywords, preferred_element_type=jnp.float32)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
        narrow = lax.scaled_dot(lhs, rhs, **keywords)
        assert narrow.dtype == jnp.bfloat16
        np.testing.assert_allclose(narrow.astype(jnp.float32), expected, rtol=0.02, atol=0.5)


def test_stacks_and_vmap_of_scaled_dot() -> None:
    lhs, rhs = operands(jnp.float32, 2, 5, 32), operands(jnp.float32, 2, 32, 3)
    s = scales(jnp.float32, 2, 5, 4)
    expected = spread(lhs, s) @ np.asarray(rhs)

    def one(*args: Any) -> Any:
        return lax.scaled_dot(*args[:2], lhs_scale=args[2], preferred_element_type=jnp.float32)

    np.testing.assert_allclose(one(lhs, rhs, s), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(pyjax.vmap(one)(lhs, rhs, s), expected, rtol=1e-4, atol=1e-4)
    assert '"xla.scaled_dot"' in pyjax.jit(one).lower(lhs, rhs, s).as_text()


M = jnp.ones((4, 64))
ERRORS = [
    (lambda: lax.scaled_dot(M[0], M.T), TypeError, "0-rank and 1-rank"),
    (lambda: lax.scaled_dot(M, M.T, lhs_scale=M[:, :3]), TypeError, "its scale's dim size 3"),
    (lambda: lax.scaled_dot(M, M.T, lhs_scale=M[:2, :4]), TypeError, "scale dim size 2"),
    (lambda: lax.scaled_dot(M, M.T, lhs_scale=M), TypeError, "must be at least 2"),
    (lambda: lax.scaled_dot(M, M.T, lhs_scale=M[0]), TypeError, "its scale 1"),
    (lambda: nn.scaled_matmul(M, M, M, M), ValueError, "3-dimensional"),
    (lambda: nn.scaled_matmul(M[None], M[None, :, :9], M[None], M[None]), ValueError, "inputs a"),
    (lambda: nn.scaled_matmul(*[M[None]] * 3, M[None, :, :2]), ValueError, "scales to have"),
    (lambda: nn.scaled_matmul(*[M[None]] * 2, *[M[None, :, :3]] * 2), ValueError, "divides"),
    (lambda: nn.get_scaled_dot_general_config("fp3"), ValueError, "Unsupported mode: fp3"),
]


@pytest.mark.parametrize("call, kind, message", ERRORS)
def test_errors(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.parametrize("dtype, scale_dtype", FORMATS)
def test_scaled_matmul(dtype: Any, scale_dtype: Any) -> None:
    a, b = operands(dtype, 2, 3, 32), operands(dtype, 2, 4, 32)
    s, t = scales(scale_dtype, 2, 3, 2), scales(scale_dtype, 2, 4, 2)
    found = pyjax.jit(nn.scaled_matmul)(a, b, s, t)
    expected = spread(a, s) @ spread(b, t).swapaxes(1, 2)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
    assert nn.scaled_matmul(a, b, s, t, jnp.bfloat16).dtype == jnp.bfloat16


NUMBERS = [
    ((3, 64), (64, 5), (((1,), (0,)), ((), ()))),
    ((2, 3, 64), (2, 5, 64), (((2,), (2,)), ((0,), (0,)))),
    ((8, 3, 8), (5, 8, 8), (((0, 2), (1, 2)), ((), ()))),
    ((3, 40), (5, 40), (((1,), (1,)), ((), ()))),
]
# The largest relative rounding error of an element: half of the last place, in both operands.
MODES = [("mxfp8", None, 2 * 2**-4), ("nvfp4", None, 0.5), ("nvfp4", 0.25, 0.5)]


@pytest.mark.parametrize("mode, factor, bound", MODES)
@pytest.mark.parametrize("lhs, rhs, numbers", NUMBERS)
def test_scaled_dot_general(
    mode: str, factor: Any, bound: float, lhs: Any, rhs: Any, numbers: Any
) -> None:
    scale = None if factor is None else jnp.array([factor], jnp.float32)
    configs = [nn.get_scaled_dot_general_config(mode, scale)] * 3
    a, b = operands(jnp.float32, *lhs), operands(jnp.float32, *rhs)

    def loss(a: Any, b: Any, configs: Any, weights: Any = 1.0) -> Any:
        return jnp.sum(weights * nn.scaled_dot_general(a, b, numbers, configs=configs))

    found = nn.scaled_dot_general(a, b, numbers, configs=configs)
    exact = nn.scaled_dot_general(a, b, numbers)
    np.testing.assert_allclose(exact, lax.dot_general(a, b, numbers), rtol=1e-6)
    sizes = lax.dot_general(jnp.abs(a), jnp.abs(b), numbers)
    assert found.shape == exact.shape
    assert jnp.all(jnp.abs(found - exact) <= bound * sizes)
    assert jnp.any(found != exact)
    weights = operands(jnp.float32, *exact.shape)
    for wrt in (0, 1):
        gradient = pyjax.grad(loss, wrt)(a, b, configs, weights)
        expected = pyjax.grad(loss, wrt)(a, b, None, weights)
        off = jnp.linalg.norm(gradient - expected) / jnp.linalg.norm(expected)
        assert 0 < off < bound


def test_what_the_format_holds_is_kept() -> None:
    # Small integers times powers of two are numbers of the format, with any scale.
    x = jnp.asarray(RNG.randint(-4, 5, (4, 32)), jnp.float32).at[:, 0].set(4.0)
    configs = [nn.get_scaled_dot_general_config("mxfp8")] * 3
    found = nn.scaled_dot_general(x, x / 8, (((1,), (1,)), ((), ())), configs=configs)
    np.testing.assert_array_equal(found, x @ x.T / 8)
    zeros = nn.scaled_dot_general(0 * x, x, (((1,), (1,)), ((), ())), configs=configs)
    np.testing.assert_array_equal(zeros, np.zeros((4, 4)))
