"""Optimizers of pytrees of parameters, as triples of functions.

    init, update, params = adam(1e-3)
    state = init(parameters)
    for step in range(steps):
        state = update(step, gradients(params(state)), state)

An optimizer is written for one array of parameters, and `optimizer` makes it one of pytrees. They
are for examples and small programs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import pyjax.numpy as jnp
from pyjax.core.array import Array as Array
from pyjax.core.errors import new_error
from pyjax.core.tree_util import (
    PyTreeDef,
    register_pytree_node,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_unflatten,
)

Params = Any  # a pytree of arrays
Updates = Any  # a pytree of arrays, with the structure of the parameters
State = Any  # a pytree of arrays
Step = int
InitFn = Callable[[Params], "OptimizerState"]
UpdateFn = Callable[[Step, Updates, "OptimizerState"], "OptimizerState"]
ParamsFn = Callable[["OptimizerState"], Params]
Schedule = Callable[[Step], Any]


class OptimizerState(NamedTuple):
    """States of an optimizer's arrays, by leaves, so that transformations see arrays only.

    Attributes:
      packed_state: for each parameter, the leaves of its state.
      tree_def: structure of the parameters.
      subtree_defs: for each parameter, the structure of its state.

    >>> state = sgd(0.5).init_fn({"a": 1.0, "b": 2.0})
    >>> state.packed_state
    ([1.0], [2.0])
    """

    packed_state: tuple[Any, ...]
    tree_def: PyTreeDef
    subtree_defs: tuple[PyTreeDef, ...]


register_pytree_node(
    OptimizerState,
    lambda state: ((state.packed_state,), (state.tree_def, state.subtree_defs)),
    lambda structures, children: OptimizerState(children[0], *structures),
)


class Optimizer(NamedTuple):
    """The functions of an optimizer: of parameters, of step, gradients and state, and of state.

    >>> Optimizer._fields, isinstance(sgd(0.5), Optimizer)
    (('init_fn', 'update_fn', 'params_fn'), True)
    """

    init_fn: InitFn
    update_fn: UpdateFn
    params_fn: ParamsFn


def optimizer(opt_maker: Callable[..., tuple[Any, Any, Any]]) -> Callable[..., Optimizer]:
    """Make an optimizer of one array one of pytrees (a decorator).

    Args:
      opt_maker: returns functions `init(x0) -> state`, `update(step, gradient, state) -> state` and
        `params(state) -> x`, where states are pytrees of arrays.
    Returns:
      A function of the same arguments that returns an `Optimizer`.
    Raises:
      TypeError: the update, when gradients have another structure than the parameters, or a state
        changes its structure.

    >>> @optimizer
    ... def descent(rate):
    ...     return lambda x: x, lambda step, g, x: x - rate * g, lambda x: x
    >>> init, update, params = descent(0.5)
    >>> params(update(0, [4.0], init([3.0])))
    [1.0]
    """

    @functools.wraps(opt_maker)
    def tree_maker(*args: Any, **kwargs: Any) -> Optimizer:
        init, update, get = opt_maker(*args, **kwargs)

        def tree_init(params: Params) -> OptimizerState:
            leaves, tree = tree_flatten(params)
            states = [tree_flatten(init(leaf)) for leaf in leaves]
            return OptimizerState(
                tuple(flat for flat, _ in states), tree, tuple(shape for _, shape in states)
            )

        def states_of(state: OptimizerState) -> list[Any]:
            return [
                tree_unflatten(structure, flat)
                for structure, flat in zip(state.subtree_defs, state.packed_state)
            ]

        def tree_update(step: Step, updates: Updates, state: OptimizerState) -> OptimizerState:
            gradients, tree = tree_flatten(updates)
            if tree != state.tree_def:
                raise new_error(
                    TypeError,
                    f"the optimizer got gradients of the structure {tree}",
                    f"its parameters have the structure {state.tree_def}",
                    "pass what pyjax.grad returns for the parameters that it was initialized with",
                )
            new = [update(step, g, old) for g, old in zip(gradients, states_of(state))]
            flat = [tree_flatten(s) for s in new]
            for (_, structure), old in zip(flat, state.subtree_defs):
                if structure != old:
                    raise new_error(
                        TypeError,
                        f"the optimizer's update returned a state of the structure {structure}",
                        f"it got one of the structure {old}",
                        "return a state like that of init",
                    )
            return state._replace(packed_state=tuple(leaves for leaves, _ in flat))

        def tree_params(state: OptimizerState) -> Params:
            return tree_unflatten(state.tree_def, [get(s) for s in states_of(state)])

        return Optimizer(tree_init, tree_update, tree_params)

    return tree_maker


# -- optimizers ------------------------------------------------------------------------------------


def _first(state: tuple[Any, ...]) -> Any:
    return state[0]


def _with_zeros(count: int) -> Callable[[Any], tuple[Any, ...]]:
    """The state of an array and `count` more of its shape, zeros at first."""
    return lambda x0: (x0, *[jnp.zeros_like(x0) for _ in range(count)])


def _inverse_root(x: Any) -> Any:
    """1 / sqrt(x), and 0 at 0."""
    return jnp.where(x > 0, 1.0 / jnp.sqrt(x), 0.0)


@optimizer
def sgd(step_size: Any) -> Any:
    """Gradient descent.

    Args:
      step_size: a number, or a schedule: a function of the step's number.

    >>> init, update, params = sgd(0.5)
    >>> params(update(0, [4.0], init([3.0])))
    [1.0]
    """
    rate = make_schedule(step_size)

    def update(step: Any, g: Any, x: Any) -> Any:
        return x - rate(step) * g

    return lambda x0: x0, update, lambda x: x


@optimizer
def momentum(step_size: Any, mass: float) -> Any:
    """Gradient descent with momentum: a velocity of `mass` times the last one plus the gradient.

    >>> init, update, params = momentum(0.5, mass=0.5)
    >>> state = update(0, jnp.array(4.0), init(jnp.array(3.0)))
    >>> [params(state).item(), params(update(1, jnp.array(4.0), state)).item()]
    [1.0, -2.0]
    """
    rate = make_schedule(step_size)

    def update(step: Any, g: Any, state: Any) -> Any:
        x, velocity = state
        velocity = mass * velocity + g
        return x - rate(step) * velocity, velocity

    return _with_zeros(1), update, _first


@optimizer
def nesterov(step_size: Any, mass: float) -> Any:
    """Gradient descent with Nesterov's momentum.

    >>> init, update, params = nesterov(0.5, mass=0.5)
    >>> params(update(0, jnp.array(4.0), init(jnp.array(3.0)))).item()
    0.0
    """
    rate = make_schedule(step_size)

    def update(step: Any, g: Any, state: Any) -> Any:
        x, velocity = state
        velocity = mass * velocity + g
        return x - rate(step) * (mass * velocity + g), velocity

    return _with_zeros(1), update, _first


@optimizer
def adagrad(step_size: Any, momentum: float = 0.9) -> Any:
    """Adagrad (Duchi, Hazan and Singer 2011), with momentum.

    >>> init, update, params = adagrad(1.0, momentum=0.5)
    >>> params(update(0, jnp.array(4.0), init(jnp.array(3.0)))).item()
    2.5
    """
    rate = make_schedule(step_size)

    def update(step: Any, g: Any, state: Any) -> Any:
        x, squares, mean = state
        squares = squares + jnp.square(g)
        mean = (1.0 - momentum) * (g * _inverse_root(squares)) + momentum * mean
        return x - rate(step) * mean, squares, mean

    return _with_zeros(2), update, _first


@optimizer
def rmsprop(step_size: Any, gamma: float = 0.9, eps: float = 1e-8) -> Any:
    """RMSProp: gradients over the root of a running mean of their squares.

    >>> init, update, params = rmsprop(0.5, gamma=0.75)
    >>> params(update(0, jnp.array(4.0), init(jnp.array(3.0)))).item()
    2.0
    """
    rate = make_schedule(step_size)

    def update(step: Any, g: Any, state: Any) -> Any:
        x, mean_square = state
        mean_square = mean_square * gamma + jnp.square(g) * (1.0 - gamma)
        return x - rate(step) * g / jnp.sqrt(mean_square + eps), mean_square

    return _with_zeros(1), update, _first


@optimizer
def rmsprop_momentum(
    step_size: Any, gamma: float = 0.9, eps: float = 1e-8, momentum: float = 0.9
) -> Any:
    """RMSProp with momentum; the step size is part of the velocity.

    >>> init, update, params = rmsprop_momentum(0.5, gamma=0.75)
    >>> params(update(0, jnp.array(4.0), init(jnp.array(3.0)))).item()
    2.0
    """
    rate = make_schedule(step_size)

    def update(step: Any, g: Any, state: Any) -> Any:
        x, mean_square, velocity = state
        mean_square = mean_square * gamma + jnp.square(g) * (1.0 - gamma)
        velocity = momentum * velocity + rate(step) * g / jnp.sqrt(mean_square + eps)
        return x - velocity, mean_square, velocity

    return _with_zeros(2), update, _first


@optimizer
def adam(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Adam (Kingma and Ba 2015).

    >>> init, update, params = adam(0.5)
    >>> params(update(0, jnp.array(4.0), init(jnp.array(3.0)))).round(4).item()
    2.5
    """
    rate = make_schedule(step_size)

    def update(step: Any, g: Any, state: Any) -> Any:
        x, mean, mean_square = state
        mean = (1 - b1) * g + b1 * mean
        mean_square = (1 - b2) * jnp.square(g) + b2 * mean_square
        # Both began with zeros: what they lack of a mean is divided away.
        whole, whole_square = (
            m / (1 - jnp.asarray(b, m.dtype) ** (step + 1))
            for m, b in ((mean, b1), (mean_square, b2))
        )
        return x - rate(step) * whole / (jnp.sqrt(whole_square) + eps), mean, mean_square

    return _with_zeros(2), update, _first


@optimizer
def adamax(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """AdaMax, Adam with a running maximum in place of the mean of squares.

    >>> init, update, params = adamax(0.5)
    >>> params(update(0, jnp.array(4.0), init(jnp.array(3.0)))).round(4).item()
    2.5
    """
    rate = make_schedule(step_size)

    def update(step: Any, g: Any, state: Any) -> Any:
        x, mean, largest = state
        mean = (1 - b1) * g + b1 * mean
        largest = jnp.maximum(b2 * largest, jnp.abs(g))
        whole = rate(step) / (1 - jnp.asarray(b1, mean.dtype) ** (step + 1))
        return x - whole * mean / (largest + eps), mean, largest

    return _with_zeros(2), update, _first


@optimizer
def sm3(step_size: Any, momentum: float = 0.9) -> Any:
    """SM3 (Anil, Gupta, Koren and Singer 2019): squares are summed for each index of each axis, in
    place of each element.

    >>> init, update, params = sm3(1.0, momentum=0.5)
    >>> params(update(0, jnp.array([3.0, 4.0]), init(jnp.zeros(2)))).tolist()
    [-0.5, -0.5]
    """
    rate = make_schedule(step_size)

    def init(x0: Any) -> Any:
        x0 = jnp.asarray(x0)
        sums = [jnp.zeros(n, x0.dtype) for n in x0.shape] or [jnp.zeros((), x0.dtype)]
        return x0, jnp.zeros_like(x0), sums

    def update(step: Any, g: Any, state: Any) -> Any:
        x, mean, sums = state
        axes = range(x.ndim)
        along = [
            s.reshape([-1 if i == axis else 1 for i in axes]) if x.ndim else s
            for axis, s in enumerate(sums)
        ]
        bound = functools.reduce(jnp.minimum, along) + jnp.square(g)
        mean = (1.0 - momentum) * (g * _inverse_root(bound)) + momentum * mean
        sums = [bound.max(tuple(i for i in axes if i != axis)) for axis, _ in enumerate(sums)]
        return x - rate(step) * mean, mean, sums

    return init, update, _first


# -- schedules -------------------------------------------------------------------------------------


def constant(step_size: Any) -> Schedule:
    """The same step size at every step.

    >>> constant(0.1)(1000)
    0.1
    """
    return lambda step: step_size


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> Schedule:
    """step_size · decay_rate ** (step / decay_steps).

    >>> exponential_decay(8.0, decay_steps=10, decay_rate=0.5)(20)
    2.0
    """
    return lambda step: step_size * decay_rate ** (step / decay_steps)


def inverse_time_decay(
    step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False
) -> Schedule:
    """step_size / (1 + decay_rate · step / decay_steps); with `staircase`, of the whole part of
    that quotient of steps.

    >>> inverse_time_decay(8.0, decay_steps=10, decay_rate=1.0)(10)
    4.0
    >>> float(inverse_time_decay(8.0, decay_steps=10, decay_rate=1.0, staircase=True)(19))
    4.0
    """
    if staircase:
        return lambda step: step_size / (1 + decay_rate * jnp.floor(step / decay_steps))
    return lambda step: step_size / (1 + decay_rate * step / decay_steps)


def polynomial_decay(
    step_size: Any, decay_steps: Any, final_step_size: Any, power: float = 1.0
) -> Schedule:
    """From `step_size` to `final_step_size` within `decay_steps`, as a power of what is left.

    >>> schedule = polynomial_decay(8.0, decay_steps=4, final_step_size=0.0)
    >>> [float(schedule(step)) for step in (0, 2, 4, 6)]
    [8.0, 4.0, 0.0, 0.0]
    """

    def schedule(step: Any) -> Any:
        left = 1 - jnp.minimum(step, decay_steps) / decay_steps
        return left**power * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """values[i] for the steps after boundaries[i - 1], up to boundaries[i].

    Raises:
      ValueError: there is not one value more than there are boundaries, or they are no vectors.

    >>> float(piecewise_constant([3, 6], [0.5, 0.25, 0.125])(4))
    0.25
    """
    bounds, sizes = jnp.asarray(boundaries), jnp.asarray(values)
    if not bounds.ndim == sizes.ndim == 1:
        raise ValueError("boundaries and values must be sequences")
    if bounds.shape[0] != sizes.shape[0] - 1:
        raise ValueError(
            f"boundaries length must be one shorter than values length, got {bounds.shape[0]} "
            f"and {sizes.shape[0]}"
        )
    return lambda step: sizes[jnp.sum(step > bounds)]


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """A schedule: itself, or a constant one of a number.

    Raises:
      TypeError: neither a function nor a number.

    >>> make_schedule(0.1)(7), make_schedule(lambda step: step / 2)(7)
    (0.1, 3.5)
    """
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    numbers = (int, float, np.ndarray, np.generic, Array)
    if isinstance(scalar_or_schedule, numbers) and jnp.ndim(scalar_or_schedule) == 0:
        return constant(scalar_or_schedule)
    raise new_error(
        TypeError,
        f"make_schedule: a step size of type {type(scalar_or_schedule).__name__}",
        "it is a number, or a function of the step",
        "for example 1e-3, or exponential_decay(1e-3, 1000, 0.9)",
    )


# -- gradients -------------------------------------------------------------------------------------


def l2_norm(tree: Any) -> Any:
    """The Euclidean norm of all elements of a pytree of arrays.

    >>> float(l2_norm({"a": jnp.array([3.0]), "b": jnp.array([[4.0]])}))
    5.0
    """
    return jnp.sqrt(sum(jnp.vdot(x, x) for x in tree_leaves(tree)))


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    """The pytree scaled down to the norm `max_norm`, if its norm is larger.

    >>> clip_grads([jnp.array([3.0, 4.0])], 1.0)
    [Array([0.6, 0.8], dtype=float32)]
    """
    norm = l2_norm(grad_tree)
    return tree_map(lambda g: jnp.where(norm < max_norm, g, g * (max_norm / norm)), grad_tree)


# -- states as other pytrees -----------------------------------------------------------------------


class JoinPoint:
    """A leaf that stands for a tree: the state of one parameter, in the tree of parameters.

    >>> list(JoinPoint((1, 2)))
    [(1, 2)]
    """

    def __init__(self, subtree: Any) -> None:
        self.subtree = subtree

    def __iter__(self) -> Any:
        return iter([self.subtree])


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """The tree of parameters with the state of each, as a `JoinPoint`, in its place: a form to
    write to files, which holds nothing of this module's but the JoinPoints.

    >>> tree = unpack_optimizer_state(sgd(0.5).init_fn({"w": 3.0}))
    >>> tree["w"].subtree
    3.0
    """
    states = zip(opt_state.subtree_defs, opt_state.packed_state)
    leaves = [JoinPoint(tree_unflatten(structure, flat)) for structure, flat in states]
    return tree_unflatten(opt_state.tree_def, leaves)


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """The state of a tree of JoinPoints, as `unpack_optimizer_state` returns it.

    Raises:
      TypeError: a leaf is no JoinPoint.

    >>> init, _, params = sgd(0.5)
    >>> params(pack_optimizer_state(unpack_optimizer_state(init({"w": 3.0}))))
    {'w': 3.0}
    """
    leaves, tree = tree_flatten(marked_pytree)
    for leaf in leaves:
        if not isinstance(leaf, JoinPoint):
            raise new_error(
                TypeError,
                f"a leaf of type {type(leaf).__name__} among the states of an optimizer",
                "the state of each parameter is a JoinPoint",
                "pass what unpack_optimizer_state returned",
            )
    states: Sequence[Any] = [tree_flatten(leaf.subtree) for leaf in leaves]
    return OptimizerState(tuple(f for f, _ in states), tree, tuple(s for _, s in states))
