"""ufunc objects: callable elementwise functions with reduce, accumulate, at, reduceat and outer.

`add`, `multiply`... are ufuncs with fast methods; `frompyfunc` makes one from any scalar function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from pyjax import lax
from pyjax.api.custom_jvp import custom_jvp
from pyjax.api.jit import jit
from pyjax.core import dtypes
from pyjax.core.errors import new_error
from pyjax.lax.reshard import broadcast_alike
from pyjax.numpy import cumulative, reductions, ufuncs, util
from pyjax.numpy.arithmetic import remainder
from pyjax.numpy.eager import compiled_binary
from pyjax.numpy.index_update import update
from pyjax.numpy.indexing import read
from pyjax.numpy.manipulation import ravel
from pyjax.numpy.selection import select_where
from pyjax.numpy.ufunc_folds import (
    apply_at_each,
    fold,
    fold_segments,
    partial_folds,
    sum_segments,
)
from pyjax.numpy.vectorized import vectorize

__all__ = [
    "add",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "frompyfunc",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "subtract",
    "ufunc",
]


class ufunc:
    """An elementwise function with the methods of NumPy's ufuncs.

    Args:
      func: function of `nin` arrays with `nout` results, elementwise and broadcasting.
      identity: start value of reductions without elements.
      elementwise: `func` for arrays, if it is a function of scalars itself.
      call, reduce, accumulate, at, reduceat: faster forms of the methods.

    >>> jnp.add.reduce(jnp.arange(5)), jnp.multiply.outer(jnp.arange(2), jnp.arange(2))
    (Array(10, dtype=int32), Array([[0, 0],
           [0, 1]], dtype=int32))
    """

    def __init__(
        self,
        func: Callable[..., Any],
        /,
        nin: int,
        nout: int,
        *,
        name: str | None = None,
        nargs: int | None = None,
        identity: Any = None,
        call: Callable[..., Any] | None = None,
        elementwise: Callable[..., Any] | None = None,
        reduce: Callable[..., Any] | None = None,
        accumulate: Callable[..., Any] | None = None,
        at: Callable[..., Any] | None = None,
        reduceat: Callable[..., Any] | None = None,
    ) -> None:
        self._made_of = func
        self._func = elementwise or func
        compiled = elementwise is None and nin == 2 and nout == 1
        self._call = call or (compiled_binary(func) if compiled else self._func)
        self._reduce = reduce
        self._accumulate = accumulate
        self._at = at
        self._reduceat = reduceat or fold_segments
        self._nin, self._nout = nin, nout
        self._nargs = nin if nargs is None else nargs
        self._identity = identity
        self.__name__ = name or func.__name__
        self.__qualname__ = self.__name__
        self.__module__ = "pyjax.numpy"
        self.__doc__ = func.__doc__
        names = ["x"] if nin == 1 else [f"x{i + 1}" for i in range(nin)]
        names = ["x1"] if nin == 1 and name == "negative" else names
        positional = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_ONLY) for n in names]
        keywords = [
            inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=None)
            for n in ("out", "where")
        ]
        self.__signature__ = inspect.Signature([*positional, *keywords])

    nin = property(lambda self: self._nin, doc="Number of inputs.")
    nout = property(lambda self: self._nout, doc="Number of outputs.")
    nargs = property(lambda self: self._nargs, doc="Number of arguments.")
    identity = property(lambda self: self._identity, doc="Identity element, or None.")

    def __repr__(self) -> str:
        return f"<jnp.ufunc '{self.__name__}'>"

    def __hash__(self) -> int:
        return hash(self._key())

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, ufunc) and self._key() == other._key()

    def _key(self) -> tuple[Any, ...]:
        return self._made_of, self._identity, self._nin, self._nout

    def __call__(self, *args: Any, out: None = None, where: None = None) -> Any:
        if out is not None:
            util.reject_out(self.__name__, out)
        if where is not None:
            raise new_error(
                NotImplementedError,
                f"where argument of {self.__name__}: use jnp.where(mask, f(x, y), x) instead.",
            )
        return self._call(*args)

    def _check_binary(self, method: str) -> None:
        if self._nin != 2:
            raise new_error(ValueError, f"{method} only supported for binary ufuncs")
        if self._nout != 1:
            raise new_error(
                ValueError, f"{method} only supported for functions returning a single value"
            )

    def reduce(
        self,
        a: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Any:
        """Fold along `axis`: f(f(a[0], a[1]), a[2])..."""
        self._check_binary("reduce")
        util.reject_out(f"{self.__name__}.reduce", out)
        where = util.check_mask(f"{self.__name__}.reduce", where)
        if where is not None and self._identity is None and initial is None:
            raise new_error(
                ValueError,
                f"reduction operation {self.__name__} does not have an identity, so to use a where "
                "mask one has to specify 'initial'.",
            )
        if self._reduce is not None:
            return self._reduce(
                a, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where
            )
        return self._generic_reduce(a, axis, dtype, keepdims, initial, where)

    def _generic_reduce(
        self, a: Any, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any
    ) -> Any:
        a = util.ensure_arraylike(f"{self.__name__}.reduce", a)
        a = a if dtype is None else util.convert(a, util.check_user_dtype(dtype, "reduce"))
        if axis is not None and not isinstance(axis, (int, np.integer)):
            axes = util.canonicalize_axes(axis, a.ndim)
            if len(axes) != 1:
                raise new_error(
                    ValueError,
                    "reduction operation with multiple axes is not reorderable; use "
                    "axis=None or one axis.",
                )
            (axis,) = axes
        shape, ndim = a.shape, a.ndim
        if axis is None:
            a, place = ravel(a), 0
            where = None if where is None else ravel(util.broadcast_array(where, shape))
        else:
            place = util.canonicalize_axis(axis, a.ndim)
            where = None if where is None else util.broadcast_array(where, shape)
        if initial is None:
            initial = self._identity
        if a.shape[place] == 0 and initial is None:
            raise new_error(
                ValueError,
                f"zero-size array to reduction operation {self.__name__} which has no identity",
            )
        out = fold(self, a, where, initial, place)
        if keepdims:
            kept = (
                (1,) * ndim
                if axis is None
                else tuple(1 if i == place else n for i, n in enumerate(shape))
            )
            out = lax.reshape(out, kept)
        return out

    def accumulate(self, a: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Any:
        """All partial folds along `axis`."""
        self._check_binary("accumulate")
        util.reject_out(f"{self.__name__}.accumulate", out)
        a = util.ensure_arraylike(f"{self.__name__}.accumulate", a)
        if a.ndim == 0:
            raise new_error(TypeError, "cannot accumulate on a scalar")
        if axis is None or isinstance(axis, (tuple, list)):
            raise new_error(ValueError, f"accumulate does not allow multiple axes; got axis={axis}")
        if self._accumulate is not None:
            return self._accumulate(a, axis=axis, dtype=dtype)
        a = a if dtype is None else util.convert(a, util.check_user_dtype(dtype, "accumulate"))
        axis = util.canonicalize_axis(axis, a.ndim)
        return a if a.shape[axis] == 0 else partial_folds(self, a, axis)

    def at(self, a: Any, indices: Any, b: Any = None, /, *, inplace: bool = True) -> Any:
        """`a` with a[indices] = f(a[indices], b), applied for every repeated index in turn."""
        if inplace:
            raise new_error(
                NotImplementedError,
                f"jnp.{self.__name__}.at cannot modify its argument: arrays are immutable. Pass "
                "inplace=False and use the returned array.",
            )
        a = util.ensure_arraylike(f"{self.__name__}.at", a)
        if self._at is not None:
            return self._at(a, indices, b)
        if b is None:
            return update(a, indices, util.convert(self._func(read(a, indices)), a.dtype), "set")
        return self._at_each(a, indices, b)

    def _at_each(self, a: Any, indices: Any, b: Any) -> Any:
        entries = indices if isinstance(indices, tuple) else (indices,)
        if not all(
            util.is_array(i) or isinstance(i, (np.ndarray, int, np.integer)) for i in entries
        ):
            raise new_error(
                NotImplementedError,
                f"jnp.{self.__name__}.at supports integer indices only (no slices).",
                "elements are named one by one, also those that occur twice.",
                "Use arrays of indices, jnp.arange(start, stop).",
            )
        arrays = [util.as_array(i) for i in entries]
        shape = util.broadcast_shapes("at", [x.shape for x in arrays])
        columns = [ravel(util.broadcast_array(x, shape)) for x in arrays]
        values = util.broadcast_array(util.as_array(b), (*shape, *a.shape[len(arrays) :]))
        values = lax.reshape(values, (columns[0].size, *a.shape[len(arrays) :]))
        return apply_at_each(self, a, columns, values)

    def reduceat(
        self, a: Any, indices: Any, axis: int = 0, dtype: Any = None, out: None = None
    ) -> Any:
        """Folds of the segments of `a` that start at each of `indices`."""
        self._check_binary("reduceat")
        util.reject_out(f"{self.__name__}.reduceat", out)
        a, indices = util.ensure_arraylike(f"{self.__name__}.reduceat", a, indices)
        if indices.ndim != 1:
            raise new_error(ValueError, "reduceat: indices must be one-dimensional")
        if not dtypes.issubdtype(indices.dtype, np.integer):
            raise new_error(
                ValueError,
                f"{self.__name__}.reduceat: indices must be integers, got {indices.dtype}.",
                fix="indices.astype(int).",
            )
        a = a if dtype is None else util.convert(a, util.check_user_dtype(dtype, "reduceat"))
        return self._reduceat(self, a, indices, util.canonicalize_axis(axis, a.ndim))

    def outer(self, A: Any, B: Any, /) -> Any:
        """f of every pair of an element of `A` and one of `B`."""
        self._check_binary("outer")
        A, B = util.ensure_arraylike(f"{self.__name__}.outer", A, B)
        left = lax.expand_dims(A, tuple(range(A.ndim, A.ndim + B.ndim)))
        right = lax.expand_dims(B, tuple(range(A.ndim)))
        return self._call(left, right)


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """A ufunc that applies the scalar function `func` elementwise (through vmap).

    >>> frompyfunc(lambda a, b: a + 2 * b, 2, 1)(1, np.arange(2)).tolist()
    [1, 3]
    """
    return ufunc(
        func,
        nin,
        nout,
        name=getattr(func, "__name__", "func"),
        identity=identity,
        elementwise=vectorize(func),
    )


# ---------------------------------------------------------------------------------------------
# The ufuncs of pyjax.numpy


def _logical_reduce(reduce: Callable[..., Any]) -> Callable[..., Any]:
    def fn(
        a: Any,
        axis: Any = 0,
        dtype: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Any:
        out = reduce(a, axis=axis, keepdims=keepdims, where=where)
        if initial is not None:
            combine = lax.bitwise_and if reduce is reductions.all else lax.bitwise_or
            out = combine(
                out, util.broadcast_array(util.convert(initial, np.dtype(np.bool_)), out.shape)
            )
        return out if dtype is None else util.convert(out, dtype)

    return fn


def _plain_reduce(reduce: Callable[..., Any]) -> Callable[..., Any]:
    def fn(
        a: Any,
        axis: Any = 0,
        dtype: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Any:
        a = util.as_array(a) if dtype is None else util.convert(a, dtype)
        return reduce(a, axis=axis, keepdims=keepdims, initial=initial, where=where)

    return fn


def _scatter_at(kind: str) -> Callable[..., Any]:
    return lambda a, indices, b: update(a, indices, b, kind)


def _extremum_at(kind: str) -> Callable[..., Any]:
    def at(a: Any, indices: Any, b: Any) -> Any:
        return update(util.convert(a, dtypes.result_type(a, b)), indices, b, kind)

    return at


def _subtract_at(a: Any, indices: Any, b: Any) -> Any:
    return update(a, indices, b, "subtract")


def _sum_reduce(
    a: Any,
    axis: Any = 0,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    return reductions.sum(a, axis, dtype, None, keepdims, initial, where)


def _prod_reduce(
    a: Any,
    axis: Any = 0,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Any:
    return reductions.prod(a, axis, dtype, None, keepdims, initial, where)


def _log_of_sum(power: Callable[[Any], Any], log1p: Callable[[Any], Any]) -> Any:
    """The logarithm of the sum of two powers: `power` and `log1p` are of the same base."""

    @custom_jvp
    def combine(x: Any, y: Any) -> Any:
        largest = lax.max(x, y)
        distance = lax.sub(x, y)
        # Equal infinities (and nans) have a nan distance: their sum is right for them.
        finite = largest + log1p(power(-lax.abs(distance)))
        return lax.select(lax.ne(distance, distance), x + y, finite)

    def share(x: Any, total: Any) -> Any:
        """The power of x - total, with equal infinities counted as distance zero."""
        both = lax.eq(x, total)
        return select_where(
            both, _equal_share(x), power(select_where(both, lax.full_like(x, 0), x - total))
        )

    @combine.defjvp
    def slope(primals: Any, tangents: Any) -> tuple[Any, Any]:
        x, y = primals
        out = combine(x, y)
        return out, tangents[0] * share(x, out) + tangents[1] * share(y, out)

    return combine


def _log2_of_1p(x: Any) -> Any:
    return lax.mul(lax.log1p(x), lax.full_like(x, 1 / np.log(2)))


_logaddexp = _log_of_sum(lax.exp, lax.log1p)
_logaddexp2 = _log_of_sum(lax.exp2, _log2_of_1p)


def _equal_share(x: Any) -> Any:
    return lax.full_like(x, 1)


def _complex_logaddexp(x: Any, y: Any) -> Any:
    larger = lax.real(x) > lax.real(y)
    high, low = lax.select(larger, x, y), lax.select(larger, y, x)
    out = high + lax.log1p(lax.exp(low - high))
    return lax.complex(lax.real(out), _principal(lax.imag(out)))


def _principal(angle: Any) -> Any:
    """The angle less whole turns, in [-pi, pi]."""
    pi, turn = (np.asarray(k * np.pi).astype(angle.dtype) for k in (1, 2))
    return select_where(lax.abs(angle) <= pi, angle, remainder(angle + pi, turn) - pi)


def logaddexp_arrays(x1: Any, x2: Any, /) -> Any:
    """log(exp(x1) + exp(x2)) without overflow.

    Accuracy: within 4 units in the last place, of 1 where the result is smaller.

    >>> round(logaddexp(0.0, 0.0).item(), 4)
    0.6931
    """
    x1, x2 = _pair("logaddexp", x1, x2)
    if not ufuncs.is_complex(x1):
        return _logaddexp(x1, x2)
    return util.as_weak_as_scalars(_complex_logaddexp(x1, x2), x1, x2)


def _pair(name: str, x1: Any, x2: Any) -> tuple[Any, Any]:
    x1, x2 = util.promote_args_inexact(name, x1, x2)
    shape = util.broadcast_shapes(name, [np.shape(x1), np.shape(x2)])
    x1, x2 = broadcast_alike((util.as_array(x1), util.as_array(x2)), shape)
    return x1, x2


@jit
def logaddexp2_arrays(x1: Any, x2: Any, /) -> Any:
    """log2(2**x1 + 2**x2) without overflow.

    Accuracy: within 4 units in the last place, of 1 where the result is smaller.

    >>> jnp.logaddexp2(jnp.array([1.0, 2.0]), jnp.array([1.0, 2.0]))
    Array([2., 3.], dtype=float32)
    """
    x1, x2 = _pair("logaddexp2", x1, x2)
    if not ufuncs.is_complex(x1):
        return util.as_weak_as_scalars(_logaddexp2(x1, x2), x1, x2)
    scale = np.asarray(np.log(2)).astype(x1.dtype)
    return util.as_weak_as_scalars(_complex_logaddexp(x1 * scale, x2 * scale) / scale, x1, x2)


add = ufunc(
    ufuncs.add_arrays,
    2,
    1,
    name="add",
    identity=0,
    reduce=_sum_reduce,
    accumulate=cumulative.cumsum,
    at=_scatter_at("add"),
    reduceat=sum_segments,
)
multiply = ufunc(
    ufuncs.multiply_arrays,
    2,
    1,
    name="multiply",
    identity=1,
    reduce=_prod_reduce,
    accumulate=cumulative.cumprod,
    at=_scatter_at("multiply"),
)
subtract = ufunc(ufuncs.subtract_arrays, 2, 1, name="subtract", at=_subtract_at)
negative = ufunc(ufuncs.negative_array, 1, 1, name="negative")
maximum = ufunc(
    ufuncs.maximum_arrays,
    2,
    1,
    name="maximum",
    reduce=_plain_reduce(reductions.max),
    at=_extremum_at("max"),
)
minimum = ufunc(
    ufuncs.minimum_arrays,
    2,
    1,
    name="minimum",
    reduce=_plain_reduce(reductions.min),
    at=_extremum_at("min"),
)
bitwise_and = ufunc(ufuncs.bitwise_and_arrays, 2, 1, name="bitwise_and", identity=-1)
bitwise_or = ufunc(ufuncs.bitwise_or_arrays, 2, 1, name="bitwise_or", identity=0)
bitwise_xor = ufunc(ufuncs.bitwise_xor_arrays, 2, 1, name="bitwise_xor", identity=0)
logical_and = ufunc(
    ufuncs.logical_and_arrays,
    2,
    1,
    name="logical_and",
    identity=True,
    reduce=_logical_reduce(reductions.all),
)
logical_or = ufunc(
    ufuncs.logical_or_arrays,
    2,
    1,
    name="logical_or",
    identity=False,
    reduce=_logical_reduce(reductions.any),
)
logical_xor = ufunc(ufuncs.logical_xor_arrays, 2, 1, name="logical_xor", identity=False)
logaddexp = ufunc(logaddexp_arrays, 2, 1, name="logaddexp", identity=-np.inf)
logaddexp2 = ufunc(logaddexp2_arrays, 2, 1, name="logaddexp2", identity=-np.inf)
