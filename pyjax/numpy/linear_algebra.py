"""Products of arrays: dot, matmul, tensordot, inner, outer, vdot, vecdot, kron, cross.

Each one sets up a single lax.dot_general; einsum.py does the same for any subscripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from pyjax import lax
from pyjax.api.jit import jit
from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import fail, new_error
from pyjax.interpreters.splits import entries_of
from pyjax.lax.reshard import computed_as
from pyjax.numpy import util
from pyjax.numpy.eager import one_program
from pyjax.numpy.manipulation import moveaxis, ravel
from pyjax.numpy.ufuncs import is_complex

__all__ = [
    "cross",
    "dot",
    "inner",
    "kron",
    "matmul",
    "matvec",
    "outer",
    "tensordot",
    "vdot",
    "vecdot",
    "vecmat",
]


def contract(
    name: str,
    a: ArrayLike,
    b: ArrayLike,
    dims: Any,
    precision: Any,
    preferred: Any,
    out_sharding: Any = None,
) -> Array:
    """dot_general in the operands' common dtype, weak where that is.

    The operands keep their own dtypes: what they are converted to is up to the lowering.
    """
    preferred = util.check_user_dtype(preferred, name)
    weak = False
    if preferred is None:
        preferred, weak = dtypes.result_type(a, b, return_weak_type_flag=True)
    out = lax.dot_general(
        a,
        b,
        dims,
        precision=precision,
        preferred_element_type=preferred,
        out_sharding=out_sharding,
    )
    return util.convert(out, out.dtype, weak)


@one_program(2)
def dot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Product over the last axis of `a` and the second to last (or only) axis of `b`.

    Scalars multiply.  For stacks of matrices `matmul` batches, `dot` does not.
    Args:
      precision: as in lax.dot_general.  preferred_element_type: dtype to accumulate and return in.
    >>> dot(np.array([1.0, 2.0]), np.array([3.0, 4.0])).item()
    11.0
    """
    a, b = util.ensure_arraylike("dot", a, b)
    if a.ndim == 0 or b.ndim == 0:
        contracting: tuple[Any, Any] = ((), ())
    else:
        contracting = ((a.ndim - 1,), (max(0, b.ndim - 2),))
        _check_contraction("dot", a, b, contracting[0][0], contracting[1][0])
    numbers = (contracting, ((), ()))
    return contract("dot", a, b, numbers, precision, preferred_element_type, out_sharding)


def _check_contraction(name: str, a: Any, b: Any, i: int, j: int) -> None:
    if a.shape[i] != b.shape[j]:
        fail(
            TypeError,
            f"{name} got incompatible shapes {a.shape} and {b.shape}.",
            f"Axis {i} of the first has size {a.shape[i]}, axis {j} of the second {b.shape[j]}; "
            "they are summed over and must be equal.",
            "Fix: transpose or reshape an operand, or name the axes with jnp.einsum.",
        )


@one_program(2)
def matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Matrix product over the last two axes; leading axes broadcast; 1-d operands are vectors.

    Raises:
      ValueError: an operand is a scalar.  TypeError: the inner sizes differ.
    >>> matmul(np.ones((2, 3)), np.ones((3, 4))).shape
    (2, 4)
    """
    util.check_arraylike("matmul", a, b)
    for position, x in enumerate((a, b)):
        if np.ndim(x) < 1:
            raise new_error(
                ValueError,
                f"matmul input operand {position} must have ndim at least 1, but it has ndim 0: "
                f"shapes {np.shape(a)} and {np.shape(b)}",
                "A matrix product sums over an axis of each operand; a number has no dimensions.",
                "Multiply by numbers with *.",
            )
    a, b = util.as_array(a), util.as_array(b)
    if out_sharding is not None and max(a.ndim, b.ndim) > 2:
        multiply = partial(
            matmul, precision=precision, preferred_element_type=preferred_element_type
        )
        return computed_as("matmul", out_sharding, multiply, a, b)
    return _matmul(a, b, precision, preferred_element_type, out_sharding)


def _check_batches_alike(a: Any, b: Any) -> None:
    """Along mesh axes of type Explicit leading dimensions that both have are split alike.

    Raises:
      ValueError: they are not.
    """
    if a.aval.split is None and b.aval.split is None:
        return
    batches = [entries_of(x.aval)[: max(x.ndim - 2, 0)] for x in (a, b)]
    if any(one != other for one, other in zip(batches[0][::-1], batches[1][::-1])):
        raise new_error(
            ValueError,
            f"Incompatible types for matmul arguments: {a.aval.str_short()} and "
            f"{b.aval.str_short()}",
            "each device multiplies its own matrices",
            "lay one of them out as the other before: jax.sharding.reshard(x, P(...)).",
        )


@partial(jit, static_argnames=("precision", "preferred", "out_sharding"), inline=True)
def _matmul(a: Any, b: Any, precision: Any, preferred: Any, out_sharding: Any) -> Any:
    b_rows = max(0, b.ndim - 2)
    _check_contraction("matmul", a, b, a.ndim - 1, b_rows)
    a_batch, b_batch = a.shape[:-2], b.shape[:-2]
    batch = util.broadcast_shapes("matmul", [a_batch, b_batch])
    rank = len(batch)
    # Batch axes that only one operand has (or has with size one) become free axes of the other.
    a_dims = (1,) * (rank - len(a_batch)) + a_batch
    b_dims = (1,) * (rank - len(b_batch)) + b_batch
    shared = [i for i in range(rank) if a_dims[i] == b_dims[i]]
    only_a = [i for i in range(rank) if a_dims[i] != 1 and b_dims[i] == 1]
    only_b = [i for i in range(rank) if a_dims[i] == 1 and b_dims[i] != 1]
    both = [i for i in shared if i >= rank - min(len(a_batch), len(b_batch))]
    only_a += [i for i in shared if i not in both and i >= rank - len(a_batch)]
    only_b += [
        i for i in shared if i not in both and i >= rank - len(b_batch) and i < rank - len(a_batch)
    ]
    _check_batches_alike(a, b)
    a_place = {i: i - (rank - len(a_batch)) for i in range(rank)}
    b_place = {i: i - (rank - len(b_batch)) for i in range(rank)}
    a = lax.squeeze(a, tuple(a_place[i] for i in only_b if a_place[i] >= 0))
    b = lax.squeeze(b, tuple(b_place[i] for i in only_a if b_place[i] >= 0))
    a_left = [i for i in range(rank) if i not in only_b and a_place[i] >= 0]
    b_left = [i for i in range(rank) if i not in only_a and b_place[i] >= 0]
    numbers = (
        ((a.ndim - 1,), (max(0, b.ndim - 2) if b.ndim > len(b_left) + 1 else b.ndim - 1,)),
        (tuple(a_left.index(i) for i in both), tuple(b_left.index(i) for i in both)),
    )
    out = contract("matmul", a, b, numbers, precision, preferred, out_sharding)
    # dot_general gives: shared batch axes, free axes of a, free axes of b.
    order: list[Any] = [*both, *(i for i in a_left if i not in both)]
    has_row = a.ndim == len(a_left) + 2
    order += ["row"] if has_row else []
    order += [i for i in b_left if i not in both]
    has_column = b.ndim == len(b_left) + 2
    order += ["column"] if has_column else []
    wanted: list[Any] = sorted(i for i in order if isinstance(i, int))
    wanted += (["row"] if has_row else []) + (["column"] if has_column else [])
    permutation = tuple(order.index(i) for i in wanted)
    return lax.transpose(out, permutation) if permutation != tuple(range(out.ndim)) else out


def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Matrix (last two axes of x1) times vector (last axis of x2), batched over leading axes.

    >>> jnp.matvec(jnp.array([[1, 2], [3, 4]]), jnp.array([1, 1]))
    Array([3, 7], dtype=int32)
    """
    x1, x2 = util.ensure_arraylike("matvec", x1, x2)
    if x1.ndim < 2 or x2.ndim < 1:
        raise new_error(
            ValueError, f"matvec needs a matrix and a vector, got shapes {x1.shape}, {x2.shape}."
        )
    out = matmul(x1, lax.expand_dims(x2, (x2.ndim,)))
    return lax.squeeze(out, (out.ndim - 1,))


def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Conjugated vector (last axis of x1) times matrix (last two axes of x2), batched.

    >>> jnp.vecmat(jnp.array([1, 1]), jnp.array([[1, 2], [3, 4]]))
    Array([4, 6], dtype=int32)
    """
    x1, x2 = util.ensure_arraylike("vecmat", x1, x2)
    x1 = lax.conj(x1) if is_complex(x1) else x1
    out = matmul(lax.expand_dims(x1, (x1.ndim - 1,)), x2)
    return lax.squeeze(out, (out.ndim - 2,))


def vdot(
    a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: Any = None
) -> Array:
    """Sum of conj(a) * b over all elements.

    >>> jnp.vdot(jnp.array([1, 2]), jnp.array([3, 4]))
    Array(11, dtype=int32)
    """
    util.check_arraylike("vdot", a, b)
    a = util.as_array(a)
    a = lax.conj(a) if is_complex(a) else a
    return dot(
        ravel(a), ravel(b), precision=precision, preferred_element_type=preferred_element_type
    )


def vecdot(
    x1: Any,
    x2: Any,
    /,
    *,
    axis: int = -1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Sum of conj(x1) * x2 along `axis`, batched over the others (which broadcast).

    >>> jnp.vecdot(jnp.ones((2, 3)), jnp.ones(3))
    Array([3., 3.], dtype=float32)
    """
    x1, x2 = util.ensure_arraylike("vecdot", x1, x2)
    if x1.shape[axis] != x2.shape[axis]:
        raise new_error(
            ValueError, f"axes must match; got shapes {x1.shape} and {x2.shape} with {axis=}"
        )
    x1, x2 = moveaxis(x1, axis, -1), moveaxis(x2, axis, -1)
    x1 = lax.conj(x1) if is_complex(x1) else x1
    out = matmul(
        lax.expand_dims(x1, (x1.ndim - 1,)),
        lax.expand_dims(x2, (x2.ndim,)),
        precision=precision,
        preferred_element_type=preferred_element_type,
    )
    return lax.squeeze(out, (out.ndim - 2, out.ndim - 1))


def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: Any = 2,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Product summed over pairs of axes.

    Args:
      axes: n for the last n of `a` with the first n of `b`; or (axes of a, axes of b).
    >>> tensordot(np.ones((2, 3)), np.ones((3, 4)), 1).shape
    (2, 4)
    """
    a, b = util.ensure_arraylike("tensordot", a, b)
    if not isinstance(axes, (tuple, list)) and np.ndim(axes) == 0:
        n = util.static_int(axes, "axes")
        if n > min(a.ndim, b.ndim):
            raise new_error(
                TypeError,
                f"Number of tensordot axes (axes {n}) exceeds input ranks ({a.shape} and "
                f"{b.shape})",
            )
        pairs: tuple[Any, Any] = (tuple(range(a.ndim - n, a.ndim)), tuple(range(n)))
    elif len(axes) == 2:
        first, second = (x if isinstance(x, Sequence) or np.ndim(x) else (x,) for x in axes)
        if len(first) != len(second):
            raise new_error(
                TypeError,
                f"tensordot requires axes lists to have equal length, got {first} and {second}.",
            )
        pairs = (
            tuple(util.canonicalize_axis(i, a.ndim) for i in first),
            tuple(util.canonicalize_axis(i, b.ndim) for i in second),
        )
    else:
        raise new_error(
            TypeError,
            "tensordot axes argument must be an int, a pair of ints, or a pair of lists/tuples "
            f"of ints, got {axes!r}.",
        )
    for i, j in zip(*pairs, strict=True):
        _check_contraction("tensordot", a, b, i, j)
    numbers = (pairs, ((), ()))
    return contract("tensordot", a, b, numbers, precision, preferred_element_type, out_sharding)


def inner(
    a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: Any = None
) -> Array:
    """Product summed over the last axis of both (no conjugate); scalars multiply.

    >>> jnp.inner(jnp.array([1, 2]), jnp.array([3, 4]))
    Array(11, dtype=int32)
    """
    a, b = util.ensure_arraylike("inner", a, b)
    if a.ndim == 0 or b.ndim == 0:
        return contract("inner", a, b, (((), ()), ((), ())), precision, preferred_element_type)
    return tensordot(
        a, b, (-1, -1), precision=precision, preferred_element_type=preferred_element_type
    )


def outer(a: Any, b: Any, out: None = None) -> Array:
    """All products of elements of the flattened `a` (rows) and `b` (columns).

    >>> jnp.outer(jnp.array([1, 2]), jnp.array([1, 10]))
    Array([[ 1, 10],
           [ 2, 20]], dtype=int32)
    """
    util.reject_out("outer", out)
    util.check_arraylike("outer", a, b)
    a, b = util.promote_dtypes(a, b)
    a, b = ravel(a), ravel(b)
    multiply = lax.bitwise_and if a.dtype == np.bool_ else lax.mul
    return multiply(lax.expand_dims(a, (1,)), lax.expand_dims(b, (0,)))


def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """Kronecker product: every element of `a` times the whole of `b`.

    >>> jnp.kron(jnp.array([1, 10]), jnp.array([1, 2]))
    Array([ 1,  2, 10, 20], dtype=int32)
    """
    util.check_arraylike("kron", a, b)
    a, b = (util.as_array(x) for x in util.promote_dtypes(a, b))
    rank = max(a.ndim, b.ndim)
    a = lax.reshape(a, (1,) * (rank - a.ndim) + a.shape)
    b = lax.reshape(b, (1,) * (rank - b.ndim) + b.shape)
    left = lax.expand_dims(a, tuple(range(1, 2 * rank, 2)))
    right = lax.expand_dims(b, tuple(range(0, 2 * rank, 2)))
    multiply = lax.bitwise_and if a.dtype == np.bool_ else lax.mul
    out = multiply(left, right)
    return lax.reshape(out, tuple(n * m for n, m in zip(a.shape, b.shape, strict=True)))


@one_program(2)
def cross(
    a: Any,
    b: Any,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Array:
    """Vector product of 3-d (or 2-d) vectors along an axis; others broadcast.

    Two 2-d vectors give the scalar a0 b1 - a1 b0; a missing third component counts as zero.

    >>> jnp.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    util.check_arraylike("cross", a, b)
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = (util.as_array(x) for x in util.promote_dtypes(a, b))
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    if a.shape[-1] not in (2, 3) or b.shape[-1] not in (2, 3):
        raise new_error(
            ValueError,
            f"incompatible dimensions for cross product: sizes must be 2 or 3, got shapes "
            f"{a.shape} and {b.shape}",
        )
    a_parts = [a[..., i] for i in range(a.shape[-1])]
    b_parts = [b[..., i] for i in range(b.shape[-1])]
    if len(a_parts) == len(b_parts) == 2:
        return util.convert(a_parts[0] * b_parts[1] - a_parts[1] * b_parts[0], a.dtype)
    zero = np.zeros((), a.dtype)
    a0, a1, a2 = a_parts if len(a_parts) == 3 else (*a_parts, zero)
    b0, b1, b2 = b_parts if len(b_parts) == 3 else (*b_parts, zero)
    shape = util.broadcast_shapes("cross", [a.shape[:-1], b.shape[:-1]])
    terms = [a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0]
    columns = [lax.expand_dims(util.broadcast_array(t, shape), (len(shape),)) for t in terms]
    out = lax.concatenate(columns, len(shape))
    return moveaxis(util.convert(out, a.dtype), -1, axisc)
