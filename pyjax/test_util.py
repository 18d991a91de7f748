"""Checks of derivatives against difference quotients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from pyjax.api.jvp import jvp
from pyjax.api.vjp import vjp
from pyjax.core import dtypes
from pyjax.core.tree_util import tree_flatten, tree_leaves, tree_map

# Tolerances by dtype: differences of two rounded values.
_TOLERANCES = {
    "bfloat16": 2e-1,
    "float16": 1e-1,
    "float32": 2e-2,
    "float64": 1e-5,
    "complex64": 2e-2,
    "complex128": 1e-5,
}


def _random_like(rng: np.random.Generator, x: Any) -> Any:
    """A random direction; float0 zeros for integers."""
    dtype, shape = dtypes.dtype(x), np.shape(x)
    if not dtypes.issubdtype(dtype, np.inexact):
        return np.zeros(shape, dtypes.float0)
    value = rng.standard_normal(shape)
    if dtypes.issubdtype(dtype, np.complexfloating):
        value = value + 1j * rng.standard_normal(shape)
    return np.asarray(value, dtypes.canonicalize_dtype(dtype))


def _is_differentiable(x: Any) -> bool:
    return bool(dtypes.issubdtype(dtypes.dtype(x), np.inexact))


def _shifted(xs: Any, directions: Any, step: float) -> Any:
    def shift(x: Any, v: Any) -> Any:
        if not _is_differentiable(x):
            return x
        return (np.asarray(x) + np.asarray(v) * step).astype(dtypes.dtype(x))

    return tree_map(shift, xs, directions)


def _numerical_jvp(f: Callable[..., Any], args: Any, tangents: Any, eps: float) -> Any:
    above, below = f(*_shifted(args, tangents, eps)), f(*_shifted(args, tangents, -eps))

    def quotient(a: Any, b: Any) -> Any:
        if not _is_differentiable(a):
            return np.zeros(np.shape(a), dtypes.float0)
        wide = np.complex128 if np.iscomplexobj(a) else np.float64
        return (np.asarray(a, wide) - np.asarray(b, wide)) / (2 * eps)

    return tree_map(quotient, above, below)


def _inner(xs: Any, ys: Any) -> Any:
    """The sum of products of two pytrees, in double precision; float0 counts nothing."""
    total: Any = 0.0
    for x, y in zip(tree_leaves(xs), tree_leaves(ys)):
        x, y = np.asarray(x), np.asarray(y)
        if x.dtype != dtypes.float0 and y.dtype != dtypes.float0:
            wide = np.complex128 if np.iscomplexobj(x) or np.iscomplexobj(y) else np.float64
            total = total + np.sum(x.astype(wide) * y.astype(wide))
    return total


def _tolerance(given: Any, *trees: Any) -> float:
    """The widest tolerance that the leaves' dtypes call for, or the given one."""
    leaves = [dtypes.canonicalize_dtype(dtypes.dtype(x)) for t in trees for x in tree_leaves(t)]
    if isinstance(given, dict):
        known = {np.dtype(k): v for k, v in given.items()}
        return max((known.get(d, _TOLERANCES.get(str(d), 0.0)) for d in leaves), default=0.0)
    if given is not None:
        return given
    return max((_TOLERANCES.get(str(d), 0.0) for d in leaves), default=0.0)


def _compare(what: str, xs: Any, ys: Any, atol: float, rtol: float, err_msg: str) -> None:
    xs, xs_tree = tree_flatten(xs)
    ys, ys_tree = tree_flatten(ys)
    if xs_tree != ys_tree:
        raise AssertionError(f"{what}: structures differ: {xs_tree} and {ys_tree} {err_msg}")
    for x, y in zip(xs, ys):
        x, y = np.asarray(x), np.asarray(y)
        if x.dtype == dtypes.float0 or y.dtype == dtypes.float0:
            continue
        wide = np.complex128 if np.iscomplexobj(x) or np.iscomplexobj(y) else np.float64
        np.testing.assert_allclose(
            x.astype(wide), y.astype(wide), atol=atol, rtol=rtol, err_msg=f"{what} {err_msg}"
        )


def check_jvp(
    f: Callable[..., Any],
    f_jvp: Callable[..., Any],
    args: Sequence[Any],
    atol: Any = None,
    rtol: Any = None,
    eps: float = 1e-4,
    err_msg: str = "",
) -> None:
    """Compare a JVP with central differences in a random direction.

    Args:
      f_jvp: `f_jvp(args, tangents) -> (value, tangent)`, e.g. `partial(jvp, f)`.
      atol, rtol: tolerances, numbers or dicts by dtype; by default those of the values' dtypes.
      eps: step of the differences.
    Raises:
      AssertionError: value or tangent differ.
    """
    rng = np.random.default_rng(0)
    args = tuple(args)
    tangents = tree_map(partial(_random_like, rng), args)
    value = f(*args)
    computed, tangent = f_jvp(args, tangents)
    expected = _numerical_jvp(f, args, tangents, eps)
    atol, rtol = _tolerance(atol, value, args), _tolerance(rtol, value, args)
    _compare("JVP: primal value", computed, value, atol, rtol, err_msg)
    _compare("JVP: tangent", tangent, expected, atol, rtol, err_msg)


def check_vjp(
    f: Callable[..., Any],
    f_vjp: Callable[..., Any],
    args: Sequence[Any],
    atol: Any = None,
    rtol: Any = None,
    eps: float = 1e-4,
    err_msg: str = "",
) -> None:
    """Compare a VJP with central differences: ⟨ct, J v⟩ = ⟨Jᵀ ct, v⟩ for random v and ct.

    Args:
      f_vjp: `f_vjp(*args) -> (value, pullback)`, e.g. `partial(vjp, f)`.
      Others as for check_jvp.
    Raises:
      AssertionError: the value or the products differ.
    """
    rng = np.random.default_rng(1)
    args = tuple(args)
    value = f(*args)
    computed, pullback = f_vjp(*args)
    tangents = tree_map(partial(_random_like, rng), args)
    cotangent = tree_map(partial(_random_like, rng), computed)
    expected = _inner(cotangent, _numerical_jvp(f, args, tangents, eps))
    found = _inner(pullback(cotangent), tangents)
    atol, rtol = _tolerance(atol, value, args), _tolerance(rtol, value, args)
    _compare("VJP: primal value", computed, value, atol, rtol, err_msg)
    _compare("VJP: cotangent projected", np.real(found), np.real(expected), atol, rtol, err_msg)


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: Any = None,
    rtol: Any = None,
    eps: float | None = None,
) -> None:
    """Compare derivatives of `f` up to `order` with difference quotients.

    Args:
      f: function of pytrees of arrays, differentiable at `args`.
      modes: "fwd", "rev" or both; for orders above 1 all combinations are checked.
      atol, rtol, eps: as for check_jvp; eps defaults to 1e-4 (1e-3 in single precision).
    Raises:
      AssertionError: a derivative differs.

    >>> check_grads(lambda x: x * x, (3.0,), order=2)
    """
    args = tuple(args)
    unknown = set([modes] if isinstance(modes, str) else modes) - {"fwd", "rev"}
    if unknown:
        raise ValueError(f"check_grads: modes are 'fwd' and 'rev', got {sorted(unknown)}")
    if eps is None:
        kinds = {str(dtypes.canonicalize_dtype(dtypes.dtype(x))) for x in tree_leaves(args)}
        eps = 1e-4 if kinds <= {"float64", "complex128", "int64", "int32"} else 1e-3
    _check_order(f, args, order, modes, atol, rtol, eps, "")


def _check_order(
    f: Any, args: Any, order: int, modes: Any, atol: Any, rtol: Any, eps: float, path: str
) -> None:
    if "fwd" in modes:
        name = f"{path}jvp of {getattr(f, '__name__', 'f')}"
        check_jvp(f, partial(jvp, f), args, atol, rtol, eps, name)
        if order > 1:
            rng = np.random.default_rng(order)
            tangents = tree_map(partial(_random_like, rng), args)

            def forward(*xs: Any) -> Any:
                return jvp(f, xs, tangents)[1]

            _check_order(forward, args, order - 1, modes, atol, rtol, eps, name + ": ")
    if "rev" in modes:
        name = f"{path}vjp of {getattr(f, '__name__', 'f')}"
        check_vjp(f, partial(vjp, f), args, atol, rtol, eps, name)
        if order > 1:
            cotangent = tree_map(partial(_random_like, np.random.default_rng(order)), f(*args))

            def backward(*xs: Any) -> Any:
                return vjp(f, *xs)[1](cotangent)

            _check_order(backward, args, order - 1, modes, atol, rtol, eps, name + ": ")
