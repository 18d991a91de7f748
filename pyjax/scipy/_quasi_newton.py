"""One loop for the methods that follow the gradients of a function: BFGS and L-BFGS.

They differ in what they remember of the curvature (`Memory`): an approximate inverse Hessian, or
the last steps with the changes of the gradient along them. Source: J. Nocedal & S. J. Wright,
Numerical Optimization, chapters 6 and 7.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.api.grad import value_and_grad
from pyjax.core.tree_util import tree_map

Array = Any


class Status(IntEnum):
    """Why a search has ended."""

    GOES_ON = -1
    CONVERGED = 0
    ROUNDS = 1
    EVALUATIONS = 2
    GRADIENTS = 3
    LITTLE_GAIN = 4
    NO_STEP = 5  # that makes the function smaller
    NO_MINIMUM = 6  # along a direction in which it falls and falls


class Memory(NamedTuple):
    """What is known of the curvature.

    Attributes:
      empty: the state that knows nothing: its directions are those of steepest descent.
      direction: (state, gradient) -> where to go.
      learn: (state, step, change of the gradient) -> state. Where the two have no positive product
        the result means nothing.
    """

    empty: Any
    direction: Callable[[Any, Array], Array]
    learn: Callable[[Any, Array, Array], Any]


class Limits(NamedTuple):
    """When to stop.

    Attributes:
      gtol, norm: below this norm of the gradient a search has converged.
      rounds, searches: most rounds, and evaluations in one of them.
      ftol: a round that gains less is the last.
      evaluations, gradients: after so many none begins.
    """

    gtol: float
    norm: float
    rounds: int
    searches: int
    ftol: float = -np.inf
    evaluations: int = np.iinfo(np.int32).max
    gradients: int = np.iinfo(np.int32).max


class State(NamedTuple):
    """Where a search is: point, value, gradient, memory, counts, and its `Status`."""

    x: Array
    f: Array
    g: Array
    memory: Any
    k: Array
    evaluations: Array
    status: Array


def whole_matrix(x0: Array) -> Memory:
    """BFGS: the inverse Hessian, n numbers squared."""
    eye = jnp.eye(x0.shape[0], dtype=x0.dtype)

    def learn(h: Array, dx: Array, dg: Array) -> Array:
        rho = _inverse(jnp.vdot(dg, dx))
        left = eye - rho * jnp.outer(dx, dg)
        return left @ h @ left.T + rho * jnp.outer(dx, dx)

    return Memory(eye, lambda h, g: -h @ g, learn)


def last_steps(x0: Array, count: int) -> Memory:
    """L-BFGS: `count` steps and changes of the gradient along them, the last one first."""
    nothing = jnp.zeros((count, x0.shape[0]), x0.dtype)

    def direction(pairs: tuple[Array, Array], g: Array) -> Array:
        steps, changes = pairs
        # Pairs that are not known yet are zeros, and so are their shares.
        products = jnp.sum(steps * changes, axis=1)
        rho = _inverse(products)

        def back(q: Array, pair: Any) -> tuple[Array, Array]:
            dx, dg, rho = pair
            share = rho * jnp.vdot(dx, q)
            return q - share * dg, share

        def forth(r: Array, pair: Any) -> tuple[Array, None]:
            dx, dg, rho, share = pair
            return r + (share - rho * jnp.vdot(dg, r)) * dx, None

        q, shares = lax.scan(back, g, (steps, changes, rho))
        scale = products[0] * _inverse(jnp.vdot(changes[0], changes[0]))
        scale = jnp.where(products[0] > 0, scale, 1)
        r, _ = lax.scan(forth, scale * q, (steps, changes, rho, shares), reverse=True)
        return -r

    def learn(pairs: tuple[Array, Array], dx: Array, dg: Array) -> tuple[Array, Array]:
        steps, changes = pairs
        return (
            jnp.concatenate([dx[None], steps[:-1]]),
            jnp.concatenate([dg[None], changes[:-1]]),
        )

    return Memory((nothing, nothing), direction, learn)


def search(fun: Callable[[Array], Array], x0: Array, memory: Memory, limits: Limits) -> State:
    """Go downhill from `x0`, along the directions of a memory, until one of the limits is met.

    Rounds whose step finds no decrease leave the state as it was.
    """
    evaluate = value_and_grad(fun)

    def with_status(s: State, status: Array, gain: Any) -> State:
        """The state with the first of the reasons to end that it has."""
        reasons = {
            Status.CONVERGED: jnp.linalg.norm(s.g, ord=limits.norm) < limits.gtol,
            Status.NO_STEP: status == Status.NO_STEP,
            Status.NO_MINIMUM: status == Status.NO_MINIMUM,
            Status.ROUNDS: s.k >= limits.rounds,
            Status.EVALUATIONS: s.evaluations >= limits.evaluations,
            Status.GRADIENTS: s.evaluations >= limits.gradients,
            Status.LITTLE_GAIN: gain < limits.ftol,
        }
        codes = [jnp.asarray(code, np.int32) for code in reasons]
        return s._replace(status=jnp.select([*reasons.values()], codes, Status.GOES_ON))

    def step(s: State) -> State:
        direction = memory.direction(s.memory, s.g)
        # Rounding may spoil the approximation: then restart from steepest descent.
        downhill = jnp.vdot(direction, s.g) < 0
        direction = jnp.where(downhill, direction, -s.g)
        found = _line_search(evaluate, s, direction, limits.searches)
        taken = found.status == Status.GOES_ON
        dx, dg = found.length * direction, found.gradient - s.g
        learnt = memory.learn(s.memory, dx, dg)
        usable = taken & (jnp.vdot(dg, dx) > 0)

        def kept(new: Array, old: Array, nothing: Array) -> Array:
            return jnp.where(usable, new, jnp.where(downhill, old, nothing))

        end = State(
            x=jnp.where(taken, s.x + dx, s.x),
            f=jnp.where(taken, found.value, s.f),
            g=jnp.where(taken, found.gradient, s.g),
            memory=tree_map(kept, learnt, s.memory, memory.empty),
            k=s.k + 1,
            evaluations=s.evaluations + found.count,
            status=s.status,
        )
        return with_status(end, found.status, s.f - end.f)

    f, g = evaluate(x0)
    zero = jnp.zeros((), np.int32)
    start = State(x0, f, g, memory.empty, zero, zero + 1, zero)
    start = with_status(start, zero, np.inf)
    return lax.while_loop(lambda s: s.status == Status.GOES_ON, step, start)


def _inverse(x: Array) -> Array:
    """1 / x where x is positive, and zero elsewhere."""
    return jnp.where(x > 0, 1 / jnp.where(x > 0, x, 1), 0)


class _Found(NamedTuple):
    """A step along a direction: its length, what is at its end, and how it was found."""

    length: Array
    value: Array
    gradient: Array
    count: Array
    status: Array


def _line_search(
    evaluate: Callable[[Array], Any], s: State, direction: Array, limit: int
) -> _Found:
    """A step that meets the weak Wolfe conditions, by bisection and doubling (Lewis & Overton)."""
    slope = jnp.vdot(direction, s.g)
    inf = jnp.full((), np.inf, s.x.dtype)
    zero = jnp.zeros((), s.x.dtype)

    def unfinished(state: Any) -> Array:
        return ~state["done"] & (state["count"] < limit)

    def step(state: Any) -> Any:
        t = state["next"]
        value, gradient = evaluate(s.x + t * direction)
        # Within rounding of f no decrease can be seen: equal values count as one.
        slack = 2 * jnp.finfo(s.x.dtype).eps * jnp.abs(s.f)
        enough = value <= s.f + 1e-4 * t * slope + slack
        steep = jnp.vdot(gradient, direction) < 0.9 * slope
        low = jnp.where(enough, t, state["low"])
        high = jnp.where(enough, state["high"], t)
        # What is at `low` is the best so far: the longest step with enough decrease.
        return {
            "low": low,
            "high": high,
            "next": jnp.where(jnp.isinf(high), 2 * t, (low + high) / 2),
            "value": jnp.where(enough, value, state["value"]),
            "gradient": jnp.where(enough, gradient, state["gradient"]),
            "done": enough & ~steep,
            "count": state["count"] + 1,
        }

    # The first iteration knows no scale: a unit step at most (M. Schmidt's minFunc).
    unit = jnp.minimum(1, 1 / jnp.maximum(jnp.linalg.norm(direction, ord=1), 1e-30))
    state = {
        "low": zero,
        "high": inf,
        "next": jnp.where(s.k == 0, unit, 1).astype(s.x.dtype),
        "value": s.f,
        "gradient": s.g,
        "done": jnp.zeros((), bool),
        "count": jnp.zeros((), np.int32),
    }
    end = lax.while_loop(unfinished, step, state)
    endless = ~end["done"] & jnp.isinf(end["high"])
    failure = jnp.where(endless, Status.NO_MINIMUM, Status.NO_STEP)
    found = (end["low"] > 0) & ~endless
    status = jnp.where(found, Status.GOES_ON, failure)
    return _Found(end["low"], end["value"], end["gradient"], end["count"], status)
