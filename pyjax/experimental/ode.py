"""Initial value problems by the pair of Runge-Kutta methods of Dormand and Prince (1980).

The solution between steps is a quartic; derivatives come from the adjoint equation, which is
integrated backwards (Chen et al. 2018), so that memory does not grow with the number of steps.
Source: Hairer, Nørsett & Wanner, Solving Ordinary Differential Equations I, chapter II.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.api.custom_gradient import closure_convert
from pyjax.api.custom_vjp import custom_vjp
from pyjax.api.vjp import vjp
from pyjax.core import dtypes
from pyjax.core.errors import fail
from pyjax.core.tree_util import tree_flatten, tree_leaves, tree_map, tree_unflatten
from pyjax.flatten_util import ravel_pytree
from pyjax.interpreters.linear_util import wrap_init
from pyjax.numpy.util import promote_dtypes_inexact as promote_dtypes_inexact

Array = Any

# The tableau: nodes, rows of the matrix, weights of order 5, and their difference from the order 4
# of Shampine (1986), which is two thirds of that from Dormand and Prince's own.
_NODES = np.array([1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0])
_MATRIX = np.array(
    [
        [1 / 5, 0, 0, 0, 0, 0, 0],
        [3 / 40, 9 / 40, 0, 0, 0, 0, 0],
        [44 / 45, -56 / 15, 32 / 9, 0, 0, 0, 0],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0, 0],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0, 0],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0],
    ]
)
_WEIGHTS = np.array([35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0])
_ERROR = _WEIGHTS - np.array(
    [1951 / 21600, 0, 22642 / 50085, 451 / 720, -12231 / 42400, 649 / 6300, 1 / 60]
)
# The solution in the middle of the step (Shampine 1986).
_MIDDLE = np.array(
    [
        6025192743 / 30085553152 / 2,
        0,
        51252292925 / 65400821598 / 2,
        -2691868925 / 45128329728 / 2,
        187940372067 / 1594534317056 / 2,
        -1776094331 / 19743644256 / 2,
        11237099 / 235043384 / 2,
    ]
)


def ravel_first_arg(f: Callable[..., Any], unravel: Callable[..., Any], debug_info: Any) -> Any:
    """A function of a flat first argument, whose flat result it returns.

    >>> from pyjax.flatten_util import ravel_pytree
    >>> flat, unravel = ravel_pytree({"x": jnp.ones(2), "y": jnp.zeros(1)})
    >>> ravel_first_arg(lambda tree, t: tree, unravel, None)(flat, 0.0).tolist()
    [1.0, 1.0, 0.0]
    """
    return ravel_first_arg_(wrap_init(f, debug_info=debug_info), unravel)


def ravel_first_arg_(f: Any, unravel: Callable[..., Any]) -> Callable[..., Array]:
    """The same of a function as it is.

    >>> from pyjax.flatten_util import ravel_pytree
    >>> flat, unravel = ravel_pytree({"x": jnp.ones(2), "y": jnp.zeros(1)})
    >>> ravel_first_arg_(lambda tree, t: tree, unravel)(flat, 0.0).tolist()
    [1.0, 1.0, 0.0]
    """

    def flat(first: Array, *args: Any) -> Array:
        call = getattr(f, "call_wrapped", f)
        return ravel_pytree(call(unravel(first), *args))[0]

    return flat


def interp_fit_dopri(y0: Array, y1: Array, k: Array, dt: Array) -> Array:
    """Coefficients of the quartic through a step's ends and middle, the highest first.

    Args:
      y0, y1: [n], at the ends.  k: [7, n], the stages.  dt: the step.

    >>> y, dt = jnp.ones(1), jnp.array(0.1)
    >>> y1, _, _, k = runge_kutta_step(lambda y, t: -y, y, -y, jnp.array(0.0), dt)
    >>> middle = jnp.polyval(interp_fit_dopri(y, y1, k, dt), 0.5)
    >>> bool(jnp.allclose(middle, jnp.exp(-0.05), atol=1e-5))
    True
    """
    y_mid = y0 + dt * jnp.dot(_MIDDLE.astype(y0.dtype), k)
    return jnp.stack(fit_4th_order_polynomial(y0, y1, y_mid, k[0], k[-1], dt))


def fit_4th_order_polynomial(
    y0: Array, y1: Array, y_mid: Array, dy0: Array, dy1: Array, dt: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """The quartic on [0, 1] with these values at 0, 1 and 1/2, and slopes at the ends: its
    coefficients, the highest first.

    >>> ys = [jnp.array(v) for v in (0.0, 1.0, 0.25, 0.0, 2.0)]  # of t**2: at 0, 1, 1/2, slopes
    >>> [float(c) for c in fit_4th_order_polynomial(*ys, jnp.array(1.0))]
    [0.0, 0.0, 1.0, 0.0, 0.0]
    """
    rise, first, last = y1 - y0, dt * dy0, dt * dy1
    middle = 16 * (y_mid - y0)
    return (
        -8 * rise + 2 * (last - first) + middle,
        14 * rise - 3 * last + 5 * first - 2 * middle,
        -5 * rise + last - 4 * first + middle,
        first,
        y0,
    )


def initial_step_size(
    fun: Callable[..., Array], t0: Array, y0: Array, order: int, rtol: Any, atol: Any, f0: Array
) -> Array:
    """A first step whose error is about the tolerance (Hairer, Nørsett & Wanner, II.4).

    >>> y = jnp.ones(1)
    >>> step = initial_step_size(lambda y, t: -y, jnp.array(0.0), y, 4, 1e-4, 1e-4, -y)
    >>> 0.01 < float(step) < 1.0
    True
    """
    scale = atol + jnp.abs(y0) * rtol
    size = jnp.linalg.norm(y0 / scale.astype(y0.dtype))
    slope = jnp.linalg.norm(f0 / scale.astype(f0.dtype))
    tiny = (size < 1e-5) | (slope < 1e-5)
    guess = jnp.where(tiny, 1e-6, 0.01 * size / jnp.where(slope == 0, 1, slope))
    after = fun(y0 + guess.astype(y0.dtype) * f0, t0 + guess)
    bend = jnp.linalg.norm((after - f0) / scale.astype(f0.dtype)) / guess
    most = jnp.maximum(slope, bend)
    step = jnp.where(
        most <= 1e-15,
        jnp.maximum(1e-6, guess * 1e-3),
        (0.01 / jnp.where(most <= 1e-15, 1, most)) ** (1 / (order + 1)),
    )
    return jnp.minimum(100 * guess, step)


def runge_kutta_step(
    func: Callable[..., Array], y0: Array, f0: Array, t0: Array, dt: Array
) -> tuple[Array, Array, Array, Array]:
    """One step: (y at its end, slope there, estimate of the error, [7, n] stages).

    >>> y, t, dt = jnp.ones(1), jnp.array(0.0), jnp.array(0.1)
    >>> y1, slope, error, k = runge_kutta_step(lambda y, t: -y, y, -y, t, dt)
    >>> bool(jnp.allclose(y1, jnp.exp(-0.1))), k.shape
    (True, (7, 1))
    """
    stages = [f0]
    for row, node in zip(_MATRIX, _NODES, strict=True):
        y = y0
        for weight, stage in zip(row, stages, strict=False):
            if weight:
                y = y + (dt * weight).astype(dt.dtype).astype(y0.dtype) * stage
        stages.append(func(y, t0 + dt * node))
    k = jnp.stack(stages)
    step = dt.astype(y0.dtype)
    y1 = y0 + step * jnp.dot(_WEIGHTS.astype(y0.dtype), k)
    return y1, k[-1], step * jnp.dot(_ERROR.astype(y0.dtype), k), k


def abs2(x: Array) -> Array:
    """|x|², real.

    >>> abs2(jnp.array([3.0 + 4.0j])).tolist()
    [25.0]
    """
    return jnp.real(x) ** 2 + jnp.imag(x) ** 2 if jnp.iscomplexobj(x) else x**2


def mean_error_ratio(error_estimate: Array, rtol: Any, atol: Any, y0: Array, y1: Array) -> Array:
    """The root of the mean square of errors by their tolerances; at most 1 for a good step.

    >>> one = jnp.ones(2)
    >>> round(float(mean_error_ratio(1e-3 * one, 0.0, 2e-3, one, one)), 3)
    0.5
    """
    allowed = atol + rtol * jnp.maximum(jnp.abs(y0), jnp.abs(y1))
    return jnp.sqrt(jnp.mean(abs2(error_estimate / allowed.astype(error_estimate.dtype))))


def optimal_step_size(
    last_step: Array,
    mean_error_ratio: Array,
    safety: float = 0.9,
    ifactor: float = 10.0,
    dfactor: float = 0.2,
    order: float = 5.0,
) -> Array:
    """The next step: what would have had an error a bit below the tolerance, within factors.

    >>> step = jnp.array(0.1)
    >>> good, bad = (optimal_step_size(step, jnp.array(ratio)) for ratio in (0.5, 4.0))
    >>> bool(bad < step < good)
    True
    """
    ratio = jnp.where(mean_error_ratio == 0, 1, mean_error_ratio)
    shrink = jnp.where(mean_error_ratio < 1, 1.0, dfactor)
    factor = jnp.clip(safety * ratio ** (-1 / order), shrink, ifactor)
    return jnp.where(mean_error_ratio == 0, last_step * ifactor, last_step * factor)


def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Array,
    *args: Any,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: int | float = np.inf,
    hmax: float = np.inf,
) -> Any:
    """Integrate dy/dt = func(y, t, *args) from y0, with steps chosen by their errors.

    Args:
      func: gives the time derivative, a pytree like y0.
      y0: pytree of floating arrays, the state at t[0].
      t: [n] floats, none less than the one before: where the solution is wanted. From one that is
        less on, it is nan; to go back in time, integrate -func over -t.
      args: pytrees of arrays, passed to func.
      rtol, atol: relative and absolute tolerance of a step's error.
      mxstep: most steps between two times.   hmax: largest step.
    Returns:
      A pytree like y0 with a leading dimension of size n: the states at the times t.
    Raises:
      TypeError: y0, t or args hold something else than arrays and numbers, y0 or t than floats.
    Differentiable by y0, t and args, in reverse mode, by the adjoint equation.

    >>> round(float(odeint(lambda y, t: -y, 1.0, jnp.array([0.0, 1.0]))[1]), 4)
    0.3679
    """
    for leaf in tree_leaves((y0, t, args)):
        if not jnp.isscalar(leaf) and not hasattr(leaf, "dtype"):
            fail(
                TypeError,
                "The contents of odeint *args must be arrays or scalars, but got "
                f"{leaf!r} of type {type(leaf).__name__}.",
                "The solution is differentiated by them.",
                "Let func close over what is no array.",
            )
    t = jnp.asarray(t)
    if not jnp.issubdtype(t.dtype, np.floating):
        fail(
            TypeError,
            f"t must be an array of floats, but got {t.dtype}.",
            fix="pass jnp.linspace(0., 1., n), or t.astype(float).",
        )
    converted, consts = closure_convert(func, y0, t[0], *args)
    y0 = tree_map(jnp.asarray, y0)
    for leaf in tree_leaves(y0):
        if not jnp.issubdtype(leaf.dtype, np.inexact):
            fail(
                TypeError,
                f"y0 must hold floating numbers, but got {leaf.dtype}.",
                "The solution moves away from it in steps of any size.",
                "Pass y0.astype(float).",
            )
    flat, unravel = ravel_pytree(y0)
    system = ravel_first_arg_(converted, unravel)
    out = _integrate(system, float(rtol), float(atol), mxstep, hmax, flat, t, *args, *consts)
    falls = jnp.cumsum(jnp.diff(t, prepend=t[:1]) < 0) > 0
    out = jnp.where(falls[:, None], np.nan, out)
    shapes = tree_leaves(y0)
    sizes = np.cumsum([0, *(x.size for x in shapes)])
    parts = iter(
        out[:, a:b].reshape(len(t), *x.shape).astype(x.dtype)
        for x, a, b in zip(shapes, sizes[:-1], sizes[1:], strict=True)
    )
    return tree_map(lambda _: next(parts), y0)


@partial(custom_vjp, nondiff_argnums=(0, 1, 2, 3, 4))
def _integrate(
    func: Any, rtol: Any, atol: Any, mxstep: Any, hmax: Any, y0: Array, ts: Array, *args: Any
) -> Array:
    def slope(y: Array, t: Array) -> Array:
        return func(y, t, *args)

    def to_time(state: Any, target: Array) -> Any:
        def unfinished(state: Any) -> Array:
            steps, _, _, t, dt, *_ = state
            return (t < target) & (steps < mxstep) & (dt > 0)

        def step(state: Any) -> Any:
            steps, y, f, t, dt, last, fit = state
            dt = jnp.minimum(dt, hmax).astype(dt.dtype)
            y1, f1, error, k = runge_kutta_step(slope, y, f, t, dt)
            ratio = mean_error_ratio(error, rtol, atol, y, y1)
            following = optimal_step_size(dt, ratio).astype(dt.dtype)
            # A step that ends in NaN is one that was too long.
            following = jnp.where(jnp.isnan(ratio), 0.2 * dt, following)
            new_fit = interp_fit_dopri(y, y1, k, dt.astype(y.dtype))
            taken = ratio <= 1

            def chosen(new: Array, old: Array) -> Array:
                return jnp.where(taken, new, old)

            return (
                steps + 1,
                chosen(y1, y),
                chosen(f1, f),
                chosen(t + dt, t),
                following,
                chosen(t, last),
                chosen(new_fit, fit),
            )

        state = lax.while_loop(unfinished, step, (jnp.zeros((), np.int32), *state))
        _, _, _, t, _, last, fit = state
        part = (target - last) / jnp.where(t == last, 1, t - last)
        value = jnp.polyval(fit, part.astype(fit.dtype))
        return state[1:], value

    f0 = slope(y0, ts[0])
    first = initial_step_size(slope, ts[0], y0, 4, rtol, atol, f0)
    dt = jnp.clip(first, 0, hmax).astype(ts.dtype)
    fit = jnp.stack([jnp.zeros_like(y0)] * 4 + [y0])
    _, values = lax.scan(to_time, (y0, f0, ts[0], dt, ts[0], fit), ts[1:])
    return jnp.concatenate([y0[None], values])


def _forward(func: Any, rtol: Any, atol: Any, mxstep: Any, hmax: Any, *operands: Any) -> Any:
    ys = _integrate(func, rtol, atol, mxstep, hmax, *operands)
    return ys, (ys, operands[1], operands[2:])


def _backward(func: Any, rtol: Any, atol: Any, mxstep: Any, hmax: Any, kept: Any, ct: Array) -> Any:
    ys, ts, args = kept
    leaves, tree = tree_flatten(args)
    # Integers, booleans and keys have no derivative.
    moving = [i for i, x in enumerate(leaves) if jnp.issubdtype(x.dtype, np.inexact)]

    def adjoint(state: Any, time: Array, *args: Any) -> Any:
        """Of the time that runs backwards: the state, its adjoint, and the integral for args."""
        leaves = tree_leaves(args)

        def slope(y: Array, floats: list[Array]) -> Array:
            given = dict(zip(moving, floats))
            used = [given.get(i, x) for i, x in enumerate(leaves)]
            return func(y, -time, *tree_unflatten(tree, used))

        y, y_bar, *_ = state
        dy, back = vjp(slope, y, [leaves[i] for i in moving])
        y_slope, floats_slope = back(y_bar)
        return -dy, y_slope, floats_slope

    def between(carry: Any, i: Array) -> Any:
        y_bar, floats_bar = carry
        # The adjoint of the time where the solution was read.
        t_bar = jnp.real(jnp.sum(func(ys[i], ts[i], *args) * ct[i])).astype(ts.dtype)
        state = (ys[i], y_bar + ct[i], floats_bar)
        times = jnp.stack([-ts[i], -ts[i - 1]])
        ends = odeint(adjoint, state, times, *args, rtol=rtol, atol=atol, mxstep=mxstep, hmax=hmax)
        _, y_bar, floats_bar = tree_map(lambda x: x[1], ends)
        return (y_bar, floats_bar), t_bar

    zeros = [jnp.zeros_like(leaves[i]) for i in moving]
    steps = jnp.arange(len(ts) - 1, 0, -1)
    (y_bar, floats_bar), t_bars = lax.scan(between, (jnp.zeros_like(ys[0]), zeros), steps)
    # The first of the results is y0 whatever the first time.
    begin = -jnp.real(jnp.sum(func(ys[0], ts[0], *args) * y_bar)).astype(ts.dtype)
    t_bar = jnp.concatenate([begin[None], t_bars[::-1]])
    bars = dict(zip(moving, floats_bar))
    cotangents = [
        bars[i] if i in bars else np.zeros(x.shape, dtypes.float0) for i, x in enumerate(leaves)
    ]
    return y_bar + ct[0], t_bar, *tree_unflatten(tree, cotangents)


_integrate.defvjp(_forward, _backward)

__all__ = [
    "abs2",
    "fit_4th_order_polynomial",
    "initial_step_size",
    "interp_fit_dopri",
    "mean_error_ratio",
    "odeint",
    "optimal_step_size",
    "ravel_first_arg",
    "ravel_first_arg_",
    "runge_kutta_step",
]
