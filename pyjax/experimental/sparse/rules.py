"""The rules of primitives for sparse values, in tables. `rule(*values, **params) -> values`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.core.errors import fail
from pyjax.core.primitive import Primitive
from pyjax.experimental.sparse.bcoo_array import (
    BCOO,
    bcoo_sum_duplicates,
    bcoo_transpose,
    full_batches,
    like,
)
from pyjax.experimental.sparse.bcoo_dot import (
    bcoo_divide_dense,
    bcoo_dot_general,
    bcoo_multiply_dense,
    bcoo_multiply_sparse,
)
from pyjax.experimental.sparse.bcoo_layouts import bcoo_update_layout
from pyjax.experimental.sparse.bcoo_moves import (
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_reduce_sum,
    bcoo_reshape,
    bcoo_rev,
    bcoo_squeeze,
)
from pyjax.experimental.sparse.bcoo_slices import bcoo_gather, bcoo_slice, slice_at
from pyjax.experimental.sparse.bcsr import BCSR, bcsr_dot_general, bcsr_sum_duplicates
from pyjax.experimental.sparse.control_flow import cond_rule, scan_rule, while_rule
from pyjax.experimental.sparse.convolution import bcoo_conv_general_dilated
from pyjax.experimental.sparse.transform import Rule, dense_results, is_sparse, sparse_rules

# -- elementwise, of one operand ------------------------------------------------------------------

# f(x + y) = f(x) + f(y): elements at one place may stay apart.
ADDITIVE = "conj copy imag neg real stage stop_gradient"
# f(0) = 0.
ZERO_PRESERVING = (
    "abs asin asinh atan atanh bessel_i1e cbrt ceil erf erf_inv expm1 floor log1p reduce_precision "
    "round sign sin sinh sqrt square tan tanh"
)
# f(0) is something else.
NOT_OF_ZERO = (
    "acos acosh bessel_i0e cos cosh digamma eq erfc exp exp2 ge gt is_finite le lgamma log "
    "logistic lt ne not rsqrt"
)


def _named(names: str) -> list[Primitive]:
    return [getattr(lax, f"{name}_p") for name in names.split()]


def with_data(mat: Any, data: Any) -> Any:
    """A sparse array with other data in the same places."""
    if isinstance(mat, BCOO):
        return like(mat, data)
    return BCSR((data, mat.indices, mat.indptr), **mat.info._asdict())


def _unique(mat: Any) -> Any:
    """The array with each element stored once."""
    if mat.unique_indices:
        return mat
    return (bcoo_sum_duplicates if isinstance(mat, BCOO) else bcsr_sum_duplicates)(mat, nse=mat.nse)


def _of_elements(primitive: Primitive, additive: bool) -> Rule:
    def rule(mat: Any, **params: Any) -> list[Any]:
        mat = mat if additive else _unique(mat)
        return [with_data(mat, primitive.bind(mat.data, **params))]

    return rule


def _convert_rule(mat: Any, *, new_dtype: Any, **params: Any) -> list[Any]:
    # Between inexact types elements may stay apart, up to rounding; others are not additive.
    same_kind = all(jnp.issubdtype(d, np.inexact) for d in (mat.dtype, new_dtype))
    wider = np.can_cast(mat.dtype, new_dtype, "safe") and mat.dtype != np.bool_
    mat = mat if same_kind or wider else _unique(mat)
    convert = lax.convert_element_type_p
    return [with_data(mat, convert.bind(mat.data, new_dtype=new_dtype, **params))]


def _integer_pow_rule(mat: Any, *, y: int) -> list[Any]:
    if y <= 0:
        fail(
            NotImplementedError,
            f"sparse rule for integer_pow with non-positive exponent {y} is not implemented "
            "because it would result in dense output.",
            fix="If this is your intent, use sparse.todense() to convert your argument to a dense "
            "array.",
        )
    mat = _unique(mat) if y > 1 else mat
    return [with_data(mat, lax.integer_pow(mat.data, y))]


# -- elementwise, of two operands -----------------------------------------------------------------


def _only_bcoo(name: str, *values: Any) -> None:
    if any(is_sparse(x) and not isinstance(x, BCOO) for x in values):
        fail(
            NotImplementedError,
            f"sparse rule for {name} is not implemented for BCSR.",
            "its rows are stored one after the other.",
            fix="Convert the array: x.to_bcoo().",
        )


def of_bcoo(name: str, rule: Rule) -> Rule:
    """The rule, for BCOO only."""

    def checked(*values: Any, **params: Any) -> Sequence[Any]:
        _only_bcoo(name, *values)
        return rule(*values, **params)

    return checked


def _stretched(name: str, *values: Any) -> tuple[Any, ...]:
    """Sparse values with sizes of 1 stretched to those of the others, as primitives do."""
    shapes = [np.shape(x) if not is_sparse(x) else x.shape for x in values]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        fail(
            TypeError,
            f"{name} got incompatible shapes for broadcasting: {', '.join(map(str, shapes))}.",
            fix="make the sizes equal, or 1 where a dimension should stretch.",
        )
    return tuple(
        bcoo_broadcast_in_dim(
            x, shape=shape, broadcast_dimensions=range(len(shape) - x.ndim, len(shape))
        )
        if is_sparse(x) and x.shape != shape
        else x
        for x in values
    )


def one_layout(*mats: BCOO) -> list[BCOO]:
    """The arrays, with as few batch and dense dimensions as one of them has."""
    n_batch, n_dense = min(m.n_batch for m in mats), min(m.n_dense for m in mats)
    return [bcoo_update_layout(m, n_batch=n_batch, n_dense=n_dense) for m in mats]


def _sum_rule(name: str, primitive: Primitive) -> Rule:
    def rule(x: Any, y: Any) -> list[Any]:
        sparse = [v for v in (x, y) if is_sparse(v)]
        if len(sparse) == 1:
            dense = y if is_sparse(x) else x
            shape = np.broadcast_shapes(np.shape(dense), sparse[0].shape)
            if shape != np.shape(dense):
                fail(
                    NotImplementedError,
                    f"{name} between a sparse array X and a dense array Y is not implemented when "
                    "the output shape is larger than Y.shape. This is to prevent silent "
                    "densification of a large sparse array.",
                    f"X is {sparse[0]!r}, Y has the shape {np.shape(dense)}.",
                    "If this is your intent, you can explicitly cast the sparse array to a dense "
                    "matrix.",
                )
            return [primitive.bind(*[v.todense() if is_sparse(v) else v for v in (x, y)])]
        if x.indices is y.indices and x.shape == y.shape and x.data.shape == y.data.shape:
            return [like(x, primitive.bind(x.data, y.data))]
        x, y = one_layout(*_stretched(name.lower(), x, y))
        if primitive is lax.sub_p:
            y = like(y, lax.neg(y.data))
        return [_together(x, y)]

    return rule


def _together(x: BCOO, y: BCOO) -> BCOO:
    """The elements of two arrays of one shape and layout beside each other."""
    x, y = full_batches(x), full_batches(y)
    buffers = zip((x.data, x.indices), (y.data, y.indices))
    return BCOO(tuple(jnp.concatenate(b, axis=x.n_batch) for b in buffers), shape=x.shape)


def _mul_rule(x: Any, y: Any, *, out_dtype: Any = None) -> list[Any]:
    if out_dtype is not None:
        x, y = (
            like(v, v.data.astype(out_dtype))
            if is_sparse(v)
            else lax.convert_element_type(v, out_dtype)
            for v in (x, y)
        )
    if is_sparse(x) and is_sparse(y):
        same = x.indices is y.indices and x.shape == y.shape and x.unique_indices
        if same and x.data.shape == y.data.shape:
            return [like(x, lax.mul(x.data, y.data))]
        return [bcoo_multiply_sparse(*one_layout(x, y))]
    mat, dense = (x, y) if is_sparse(x) else (y, x)
    (mat,) = [v for v in _stretched("mul", mat, dense) if is_sparse(v)]
    return [like(mat, bcoo_multiply_dense(mat, dense))]


def _div_rule(x: Any, y: Any) -> list[Any]:
    if is_sparse(y):
        fail(
            NotImplementedError,
            "Division by a sparse array is not implemented because it would result in dense "
            "output.",
            fix="If this is your intent, use sparse.todense() to convert your arguments to a dense "
            "array.",
        )
    (mat, dense) = _stretched("div", x, y)
    return [like(mat, bcoo_divide_dense(mat, dense))]


def _dot_rule(x: Any, y: Any, *, out_sharding: Any = None, **params: Any) -> list[Any]:
    if isinstance(x, BCSR) and not is_sparse(y):
        return [bcsr_dot_general(x, y, **params)]
    _only_bcoo("dot_general", x, y)
    if is_sparse(x) and is_sparse(y):
        # Batches of the product must be batches of both, and come first.
        numbers = params["dimension_numbers"]
        x, y = (_with_batches(v, dims) for v, dims in zip((x, y), numbers[1]))
    return [bcoo_dot_general(x, y, **params)]


def _with_batches(mat: BCOO, dims: Sequence[int]) -> BCOO:
    wanted = len(dims) if tuple(dims) == tuple(range(len(dims))) else mat.n_batch
    return bcoo_update_layout(mat, n_batch=min(mat.n_batch, wanted), n_dense=0)


# -- other shapes ---------------------------------------------------------------------------------


def _reduce_sum_rule(mat: BCOO, *, axes: Sequence[int], **_: Any) -> list[Any]:
    out = bcoo_reduce_sum(mat, axes=axes)
    return [out if out.shape else out.todense()]


def _one(fun: Callable[..., Any], *left_out: str) -> Rule:
    """A rule of a function of one sparse array, with the primitive's parameters."""

    def rule(mat: BCOO, *operands: Any, **params: Any) -> list[Any]:
        kept = {name: value for name, value in params.items() if name not in left_out}
        return [fun(mat, *operands, **kept)]

    return rule


def _reshape_rule(mat: BCOO, *, new_sizes: Sequence[int], dimensions: Any, **_: Any) -> list[Any]:
    return [bcoo_reshape(mat, new_sizes=new_sizes, dimensions=dimensions)]


def _concatenate_rule(*values: Any, dimension: int) -> list[Any]:
    if not all(map(is_sparse, values)):
        fail(
            NotImplementedError,
            "Concatenation of sparse and dense arrays is not implemented.",
            "the result would have elements that are stored, and others.",
            fix="Make all of them sparse (BCOO.fromdense), or dense (sparse.todense).",
        )
    return [bcoo_concatenate(one_layout(*values), dimension=dimension)]


def _dynamic_slice_rule(mat: BCOO, *starts: Any, slice_sizes: Sequence[int]) -> list[Any]:
    return [slice_at(starts, mat, tuple(slice_sizes))]


def _gather_rule(mat: Any, starts: Any, **params: Any) -> list[Any]:
    if is_sparse(starts):
        fail(
            NotImplementedError,
            "sparse rule for gather is not implemented for sparse indices.",
            "indices that are not stored are zeros, which are indices too.",
            "Make them dense: sparse.todense(indices).",
        )
    return [bcoo_gather(mat, starts, **params)]


def _conv_rule(lhs: Any, rhs: Any, **params: Any) -> list[Any]:
    if not is_sparse(lhs):
        fail(
            NotImplementedError,
            "bcoo_conv_general_dilated with dense lhs and sparse rhs.",
            "the result has the layout of the left operand.",
            fix="Make the left operand sparse: BCOO.fromdense.",
        )
    return [bcoo_conv_general_dilated(lhs, rhs, **params)]


def _stack_rule(*values: Any, axis: int) -> list[Any]:
    def place(mat: Any) -> Any:
        shape = (*mat.shape[:axis], 1, *mat.shape[axis:])
        dims = [d + (d >= axis) for d in range(mat.ndim)]
        return bcoo_broadcast_in_dim(mat, shape=shape, broadcast_dimensions=dims)

    return _concatenate_rule(*[place(v) if is_sparse(v) else v for v in values], dimension=axis)


def _tile_rule(mat: Any, *, reps: Sequence[int]) -> list[Any]:
    for axis, count in enumerate(reps):
        mat = bcoo_concatenate([mat] * count, dimension=axis) if count != 1 else mat
    return [mat]


def _split_rule(mat: BCOO, *, sizes: Sequence[int], axis: int) -> list[Any]:
    ends = np.cumsum(sizes)
    return [
        bcoo_slice(
            mat,
            start_indices=[int(end - n) if d == axis else 0 for d in range(mat.ndim)],
            limit_indices=[int(end) if d == axis else mat.shape[d] for d in range(mat.ndim)],
        )
        for end, n in zip(ends, sizes)
    ]


# -- the table ------------------------------------------------------------------------------------

_RULES: dict[Primitive, Rule] = {
    lax.add_p: _sum_rule("Addition", lax.add_p),
    lax.sub_p: _sum_rule("Subtraction", lax.sub_p),
    lax.mul_p: _mul_rule,
    lax.div_p: _div_rule,
    lax.reduce_sum_p: _reduce_sum_rule,
    lax.transpose_p: _one(bcoo_transpose),
    lax.reshape_p: _reshape_rule,
    lax.squeeze_p: _one(bcoo_squeeze),
    lax.rev_p: _one(bcoo_rev),
    lax.slice_p: _one(bcoo_slice),
    lax.dynamic_slice_p: _dynamic_slice_rule,
    lax.split_p: _split_rule,
    lax.broadcast_in_dim_p: _one(bcoo_broadcast_in_dim),
    lax.concatenate_p: _concatenate_rule,
    lax.gather_p: _gather_rule,
    lax.stack_p: _stack_rule,
    lax.tile_p: _tile_rule,
    lax.conv_general_dilated_p: _conv_rule,
}

for _primitive, _rule in _RULES.items():
    sparse_rules[_primitive] = of_bcoo(_primitive.name, _rule)
for _primitive in _named(ADDITIVE):
    sparse_rules[_primitive] = _of_elements(_primitive, additive=True)
for _primitive in _named(ZERO_PRESERVING):
    sparse_rules[_primitive] = _of_elements(_primitive, additive=False)
sparse_rules[lax.convert_element_type_p] = _convert_rule
sparse_rules[lax.integer_pow_p] = _integer_pow_rule
sparse_rules[lax.dot_general_p] = _dot_rule
sparse_rules[lax.while_p] = while_rule
sparse_rules[lax.cond_p] = cond_rule
sparse_rules[lax.scan_p] = scan_rule
dense_results.update(_named(NOT_OF_ZERO))
