"""Second derivatives of a case, and gradients under vmap, at a generic point in float64.

What is differentiated is the gradient of the sum of the results times fixed weights. It is compared
with its own differences, so that nothing need be recorded:

    forward over reverse   jvp of the gradient, a Hessian-vector product
    reverse over reverse   vjp of the gradient: the same, as Hessians are symmetric
    gradients under vmap   rows of vmap of the gradient, each at a point of its own

Complex operands have such a gradient, too, that of the real part of the sum.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

import pyjax
from tests.edge_values.execute import directions, inexact_part
from tests.edge_values.generic import generic, has_generic_operands, towards
from tests.edge_values.rows import Case

Arrays = tuple[np.ndarray, ...]
_WIDE = {"float32": "float64", "complex64": "complex128"}
_STEP = 1e-3
# Of a difference quotient of five points with that step, in float64.
_RTOL, _ATOL = 1e-6, 1e-8
_POINTS = 3


def has_generic_point(case: Case) -> bool:
    """Whether the case is differentiated, at operands that can be in general position."""
    return bool(case.differentiated) and has_generic_operands(case.operands)


class _Gradient:
    """The gradient of a case as a function, its generic point and a direction there."""

    def __init__(self, case: Case) -> None:
        wide = replace(case, dtype=_WIDE[case.dtype])
        part, self.point = inexact_part(pyjax, wide, generic)
        self.towards = tuple(
            pyjax.numpy.asarray(towards(a.shape, np.dtype(a.dtype))) for a in self.point
        )

        def gradient(*values: Any) -> tuple[Any, ...]:
            results, pull = pyjax.vjp(part, *values)
            return pull(directions(pyjax, results))

        self.function: Callable[..., tuple[Any, ...]] = gradient

    def moved(self, steps: float) -> tuple[Any, ...]:
        """The point after so many steps in the direction."""
        pairs = zip(self.point, self.towards, strict=True)
        return tuple(x + steps * _STEP * d for x, d in pairs)

    def at(self, steps: float) -> Arrays:
        return _numbers(self.function(*self.moved(steps)))


_Computation = Callable[[_Gradient], Arrays]


def _numbers(arrays: Sequence[Any]) -> Arrays:
    return tuple(np.asarray(a) for a in arrays)


@cache
def _differences(case: Case) -> Arrays:
    """The derivative of the gradient in the direction, by differences of fourth order."""
    gradient = _Gradient(case)
    near, far = (
        [after - before for after, before in zip(gradient.at(n), gradient.at(-n), strict=True)]
        for n in (1, 2)
    )
    return tuple((8 * n - f) / (12 * _STEP) for n, f in zip(near, far, strict=True))


def _disagreement(got: Arrays, want: Arrays) -> str | None:
    if not any(np.isfinite(w).any() or w.size == 0 for w in want):
        return "no derivative is finite at the generic point"
    for g, w in zip(got, want, strict=True):
        largest = np.max(np.abs(w[np.isfinite(w)]), initial=1.0)
        # Where the gradient is not finite, outside the domain, nothing is said of its derivative.
        close = ~np.isfinite(w) | np.isclose(g, w, rtol=_RTOL, atol=_ATOL * largest)
        if not close.all():
            place = tuple(np.argwhere(~close)[0])
            at = f"{(~close).sum()} of {w.size} elements, at {[int(p) for p in place]}"
            return f"{at}: got {g[place]}, differences give {w[place]}"
    return None


def _checked(case: Case, compute: _Computation, expected: _Computation) -> str | None:
    with warnings.catch_warnings(), pyjax.enable_x64(True), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            gradient = _Gradient(case)
            return _disagreement(compute(gradient), expected(gradient))
        except Exception as error:  # one line of the report of the function
            return f"{type(error).__name__}: {error}".splitlines()[0]


def forward_over_reverse(case: Case) -> str | None:
    """How a Hessian-vector product differs from differences of gradients; None if not at all."""

    def compute(gradient: _Gradient) -> Arrays:
        return _numbers(pyjax.jvp(gradient.function, gradient.point, gradient.towards)[1])

    return _checked(case, compute, lambda gradient: _differences(case))


def reverse_over_reverse(case: Case) -> str | None:
    """The same for a vector-Hessian product."""

    def compute(gradient: _Gradient) -> Arrays:
        return _numbers(pyjax.vjp(gradient.function, *gradient.point)[1](gradient.towards))

    return _checked(case, compute, lambda gradient: _differences(case))


def batched_gradient(case: Case) -> str | None:
    """How rows of a batch of gradients differ from gradients one by one; None if not at all."""

    def compute(gradient: _Gradient) -> Arrays:
        points = [gradient.moved(n) for n in range(_POINTS)]
        stacked = [pyjax.numpy.stack(arrays) for arrays in zip(*points, strict=True)]
        return _numbers(pyjax.vmap(gradient.function)(*stacked))

    def one_by_one(gradient: _Gradient) -> Arrays:
        rows = [gradient.at(n) for n in range(_POINTS)]
        return tuple(np.stack(arrays) for arrays in zip(*rows, strict=True))

    return _checked(case, compute, one_by_one)
