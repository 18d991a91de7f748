"""jacfwd, jacrev and hessian: whole derivative matrices. Layer: api."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax import lax
from pyjax.api.flat import (
    check_arrays,
    check_callable,
    dtype_of,
    normalize_argnums,
    partial_args,
    wraps,
)
from pyjax.api.jvp import jvp
from pyjax.api.vjp import vjp
from pyjax.api.vmap import vmap
from pyjax.core import dtypes
from pyjax.core.avals import ShapedArray, abstractify
from pyjax.core.errors import new_error
from pyjax.core.structural import as_split, reshape
from pyjax.core.tree_util import tree_flatten, tree_map, tree_structure, tree_unflatten


def jacfwd(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of a function, by forward mode: one pass per input element, all batched.

    Args:
      fun: function of pytrees of arrays; argnums: position(s) to differentiate; has_aux: `fun`
        returns (output, aux); holomorphic: inputs and outputs are complex.
    Returns:
      A function whose result has the output's structure, each leaf with the structure of the
      argument(s) inside, of shape output shape + input shape.

    >>> import pyjax.numpy as jnp
    >>> jacfwd(lambda x: x ** 2)(jnp.array([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    check_callable(fun)
    single = isinstance(argnums, (int, np.integer))
    positions = (argnums,) if single else tuple(argnums)  # type: ignore[arg-type]

    @wraps(fun)
    def jacfun(*args: Any, **kwargs: Any) -> Any:
        numbers = normalize_argnums(positions, len(args), "jacfwd")
        f_partial, dynamic = partial_args(fun, args, kwargs, numbers)
        check_arrays("jacfwd", dynamic)
        for x in tree_flatten(dynamic)[0]:
            _check_forward_input(x, holomorphic)

        def pushforward(tangents: Any) -> Any:
            return jvp(f_partial, dynamic, tangents, has_aux=has_aux)

        basis = _standard_basis(dynamic)
        if has_aux:
            y, jacobian, aux = vmap(pushforward, out_axes=(None, -1, None))(basis)
        else:
            y, jacobian = vmap(pushforward, out_axes=(None, -1))(basis)
        for x in tree_flatten(y)[0]:
            _check_forward_output(x, holomorphic)
        example = dynamic[0] if single else dynamic
        tree = tree_map(lambda j: _unravel(example, -1, j), jacobian)
        return (tree, aux) if has_aux else tree

    return jacfun


def jacrev(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of a function, by reverse mode: one pass per output element, all batched.

    Arguments and result as in `jacfwd`; `allow_int` gives float0 blocks for integer inputs.

    >>> import pyjax.numpy as jnp
    >>> jacrev(lambda x: x ** 2)(jnp.array([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    check_callable(fun)
    single = isinstance(argnums, (int, np.integer))
    positions = (argnums,) if single else tuple(argnums)  # type: ignore[arg-type]

    @wraps(fun)
    def jacfun(*args: Any, **kwargs: Any) -> Any:
        numbers = normalize_argnums(positions, len(args), "jacrev")
        f_partial, dynamic = partial_args(fun, args, kwargs, numbers)
        check_arrays("jacrev", dynamic)
        for x in tree_flatten(dynamic)[0]:
            _check_reverse_input(x, holomorphic, allow_int)
        if has_aux:
            y, pullback, aux = vjp(f_partial, *dynamic, has_aux=True)
        else:
            y, pullback = vjp(f_partial, *dynamic)
        for x in tree_flatten(y)[0]:
            _check_reverse_output(x, holomorphic)
        jacobian = vmap(pullback)(_standard_basis(y))
        jacobian = jacobian[0] if single else jacobian
        example = dynamic[0] if single else dynamic
        # The blocks of each leaf of the argument, turned inside out: first the outputs.
        blocks = [tree_flatten(_unravel(y, 0, j))[0] for j in tree_flatten(jacobian)[0]]
        argument_tree = tree_structure(example)
        out_leaves, out_tree = tree_flatten(y)
        result = tree_unflatten(
            out_tree,
            [
                tree_unflatten(argument_tree, [block[i] for block in blocks])
                for i in range(len(out_leaves))
            ],
        )
        return (result, aux) if has_aux else result

    return jacfun


jacobian = jacrev


def hessian(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The matrix of second derivatives: jacfwd of jacrev.

    >>> import pyjax.numpy as jnp
    >>> hessian(lambda x: x[0] * x[1])(jnp.array([1.0, 2.0])).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    return jacfwd(
        jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic),
        argnums,
        has_aux=has_aux,
        holomorphic=holomorphic,
    )


# -- bases ----------------------------------------------------------------------------------------


def _standard_basis(pytree: Any) -> Any:
    """For each leaf, an array (total size, *leaf shape): unit tangents of the whole pytree."""
    leaves, tree = tree_flatten(pytree)
    avals = [abstractify(x) for x in leaves]
    total = sum(a.size for a in avals)
    blocks = []
    offset = 0
    for aval in avals:
        blocks.append(_unit_block(aval, total, offset))
        offset += aval.size
    return tree_unflatten(tree, blocks)


def _unit_block(aval: ShapedArray, total: int, offset: int) -> Any:
    """Rows `offset`, `offset + 1`, ... hold the unit vectors of one leaf; other rows are zero."""
    dtype = aval.to_tangent_aval().dtype
    if dtype == dtypes.float0:
        return np.zeros((total, *aval.shape), dtypes.float0)
    shape = (total, aval.size)
    rows = lax.broadcasted_iota(np.dtype(np.int32), shape, 0)
    columns = lax.broadcasted_iota(np.dtype(np.int32), shape, 1)
    shift = lax.full_like(columns, offset)
    unit = lax.convert_element_type(lax.eq(rows, lax.add(columns, shift)), dtype)
    return as_split(reshape(unit, (total, *aval.shape)), aval.with_dim(0, total).split)


def _unravel(example: Any, axis: int, array: Any) -> Any:
    """Split an axis of the Jacobian by the leaves of `example`, and give it their shapes."""
    leaves, tree = tree_flatten(example)
    array_aval = abstractify(array)
    ndim = array_aval.ndim
    axis %= ndim
    parts = []
    start = 0
    for leaf in leaves:
        aval = abstractify(leaf)
        starts = [0] * ndim
        limits = list(array_aval.shape)
        starts[axis], limits[axis] = start, start + aval.size
        start += aval.size
        shape = (*array_aval.shape[:axis], *aval.shape, *array_aval.shape[axis + 1 :])
        if array_aval.dtype == dtypes.float0:
            parts.append(np.zeros(shape, dtypes.float0))
        else:
            part = (
                array if aval.size == array_aval.shape[axis] else lax.slice(array, starts, limits)
            )
            parts.append(reshape(part, shape))
    return tree_unflatten(tree, parts)


# -- checks ---------------------------------------------------------------------------------------


def _is(dtype: Any, kind: Any) -> bool:
    return dtypes.issubdtype(dtype, kind)


def _check_forward_input(x: Any, holomorphic: bool) -> None:
    dtype = dtype_of(x)
    if holomorphic and not _is(dtype, np.complexfloating):
        raise new_error(
            TypeError,
            f"jacfwd with holomorphic=True requires inputs with complex dtype, but got {dtype}.",
        )
    if not holomorphic and not _is(dtype, np.floating):
        raise new_error(
            TypeError,
            "jacfwd requires real-valued inputs (input dtype that is a sub-dtype of np.floating), "
            f"but got {dtype}. For holomorphic differentiation, pass holomorphic=True. For "
            "differentiation of non-holomorphic functions involving complex inputs or integer "
            "inputs, use jax.jvp directly.",
        )


def _check_forward_output(x: Any, holomorphic: bool) -> None:
    dtype = dtype_of(x)
    if holomorphic and not _is(dtype, np.complexfloating):
        raise new_error(
            TypeError,
            f"jacfwd with holomorphic=True requires outputs with complex dtype, but got {dtype}.",
        )


def _check_reverse_input(x: Any, holomorphic: bool, allow_int: bool) -> None:
    dtype = dtype_of(x)
    if holomorphic and not _is(dtype, np.complexfloating):
        raise new_error(
            TypeError,
            f"jacrev with holomorphic=True requires inputs with complex dtype, but got {dtype}.",
        )
    if not holomorphic and not allow_int and not _is(dtype, np.inexact):
        raise new_error(
            TypeError,
            "jacrev requires real- or complex-valued inputs (input dtype that is a sub-dtype of "
            f"np.inexact), but got {dtype}. If you want to use Boolean- or integer-valued inputs, "
            "use vjp or set allow_int to True.",
        )


def _check_reverse_output(x: Any, holomorphic: bool) -> None:
    dtype = dtype_of(x)
    if holomorphic and not _is(dtype, np.complexfloating):
        raise new_error(
            TypeError,
            f"jacrev with holomorphic=True requires outputs with complex dtype, but got {dtype}.",
        )
    if not holomorphic and not _is(dtype, np.floating):
        raise new_error(
            TypeError,
            "jacrev requires real-valued outputs (output dtype that is a sub-dtype of "
            f"np.floating), but got {dtype}. For holomorphic differentiation, pass "
            "holomorphic=True. For differentiation of non-holomorphic functions involving complex "
            "outputs, use jax.vjp directly.",
        )


__all__ = ["hessian", "jacfwd", "jacobian", "jacrev"]
