"""Derivatives by sparse arrays: with respect to their stored elements, in the same places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from pyjax.api.grad import grad as _grad
from pyjax.api.grad import value_and_grad as _value_and_grad
from pyjax.api.jacobian import jacfwd as _jacfwd
from pyjax.api.jacobian import jacrev as _jacrev
from pyjax.core.errors import fail
from pyjax.core.tree_util import tree_flatten, tree_map, tree_unflatten
from pyjax.experimental.sparse.base import JAXSparse, SparseInfo
from pyjax.experimental.sparse.bcoo_array import BCOO
from pyjax.experimental.sparse.transform import is_sparse

_Transformation = Callable[..., Callable[..., Any]]


def _data(x: Any) -> Any:
    """What is differentiated: the stored elements of sparse arrays, in pytrees."""
    return tree_map(lambda leaf: leaf.data if is_sparse(leaf) else leaf, x, is_leaf=is_sparse)


def _with_data(like: Any, data: Any) -> Any:
    """A pytree like another one, with other data: sparse where that is."""
    leaves, tree = tree_flatten(like, is_leaf=is_sparse)
    found = tree.flatten_up_to(data)
    return tree_unflatten(tree, [_placed(x, d) for x, d in zip(leaves, found)])


def _placed(x: Any, data: Any) -> Any:
    if not is_sparse(x):
        return data
    buffers, aux = x.tree_flatten()
    return type(x).tree_unflatten(aux, (data, *buffers[1:]))


def _numbers(argnums: int | Sequence[int], count: int) -> list[int]:
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    return [n + count if n < 0 else n for n in numbers]


def _by_data(
    transformation: _Transformation,
    shape: Callable[[Any, Any], Any],
    argnums: int | Sequence[int],
    parts: Callable[[Any], tuple[Callable[[Any], Any], Any]],
) -> Callable[..., Callable[..., Any]]:
    """The transformation of functions of data, applied to functions of sparse arrays.

    Args:
      shape: `shape(argument, derivative by its data) -> derivative`.
      parts: splits what the transformed function returns: how to put it together, derivatives.
    """

    def transformed(fun: Callable[..., Any], **kwargs: Any) -> Callable[..., Any]:
        @wraps(fun)
        def function(*args: Any, **call: Any) -> Any:
            numbers = _numbers(argnums, len(args))

            @wraps(fun)
            def of_data(*datas: Any, **call: Any) -> Any:
                whole = list(args)
                for n in numbers:
                    whole[n] = _with_data(args[n], datas[n])
                out = fun(*whole, **call)
                if _has_sparse(out):
                    fail(
                        NotImplementedError,
                        f"{transformation.__name__} of a function with sparse results: {out}",
                        "derivatives of elements that are not stored are not known.",
                        "Return an array: sparse.todense(result), or result.data.",
                    )
                return out

            datas = [_data(x) if n in numbers else x for n, x in enumerate(args)]
            # Sparse arguments that are not differentiated are closed over.
            rest = [x if n in numbers or not _has_sparse(x) else 0 for n, x in enumerate(datas)]
            out = transformation(of_data, argnums=argnums, **kwargs)(*rest, **call)
            together, found = parts(out)
            if isinstance(argnums, int):
                return together(shape(args[numbers[0]], found))
            return together(tuple(shape(args[n], x) for n, x in zip(numbers, found)))

        return function

    return transformed


def _has_sparse(x: Any) -> bool:
    return any(map(is_sparse, tree_flatten(x, is_leaf=is_sparse)[0]))


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    **kwargs: Any,
) -> Callable[..., Any]:
    """`pyjax.value_and_grad` of functions whose arguments may be sparse.

    The gradient by a sparse argument is a sparse array with the same indices: other elements are
    not computed.

    >>> import numpy as np
    >>> m = BCOO.fromdense(np.eye(2, dtype=np.float32))
    >>> value, gradient = value_and_grad(lambda m: (m @ np.ones(2, np.float32)).sum())(m)
    >>> float(value), gradient
    (2.0, BCOO(float32[2, 2], nse=2))
    """

    def parts(out: Any) -> Any:
        return lambda found: (out[0], found), out[1]

    transformed = _by_data(_value_and_grad, _with_data, argnums, parts)
    return transformed(fun, has_aux=has_aux, **kwargs)


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    **kwargs: Any,
) -> Callable[..., Any]:
    """`pyjax.grad` of functions whose arguments may be sparse; see `value_and_grad`.

    >>> import numpy as np
    >>> m = BCOO.fromdense(np.eye(2, dtype=np.float32))
    >>> grad(lambda m: (m @ np.ones(2, np.float32)).sum())(m).data.tolist()
    [1.0, 1.0]
    """
    parts = _auxiliary(has_aux)
    return _by_data(_grad, _with_data, argnums, parts)(fun, has_aux=has_aux, **kwargs)


def _auxiliary(has_aux: bool) -> Callable[[Any], Any]:
    def parts(out: Any) -> Any:
        if has_aux:
            return lambda found: (found, out[1]), out[0]
        return lambda found: found, out

    return parts


def _jacobian_of(x: Any, found: Any) -> Any:
    """Derivatives by one argument, for each output: sparse as the argument is."""
    leaves, tree = tree_flatten(x, is_leaf=is_sparse)

    def one(by_data: Any) -> Any:
        parts = tree.flatten_up_to(by_data)
        return tree_unflatten(tree, [_row(leaf, part) for leaf, part in zip(leaves, parts)])

    if tree.num_leaves == 1 and tree == tree_flatten(0)[1]:
        return tree_map(lambda part: _row(leaves[0], part), found)
    return tree_map(one, found, is_leaf=lambda node: tree_flatten(node)[1] == tree)


def _row(x: Any, derivative: Any) -> Any:
    """The derivative by a sparse array, whose dimensions in front are those of the output."""
    if not is_sparse(x):
        return derivative
    if not isinstance(x, BCOO):
        fail(
            NotImplementedError,
            f"The Jacobian by an argument of type {type(x).__name__}",
            "other formats have no batches for the dimensions of the output.",
            "Convert the argument to BCOO.",
        )
    number = derivative.ndim - x.data.ndim
    indices = x.indices.reshape((1,) * number + x.indices.shape)
    info = SparseInfo((*derivative.shape[:number], *x.shape), x.indices_sorted, x.unique_indices)
    return BCOO((derivative, indices), **info._asdict())


def jacfwd(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """`pyjax.jacfwd` of functions whose arguments may be sparse. Derivatives by a BCOO argument are
    BCOO, with the dimensions of the output as batches before its own.

    >>> import numpy as np
    >>> m = BCOO.fromdense(np.eye(2, dtype=np.float32))
    >>> jacfwd(lambda m: m @ np.ones(2, np.float32))(m)
    BCOO(float32[2, 2, 2], nse=2, n_batch=1)
    """
    transformed = _by_data(_jacfwd, _jacobian_of, argnums, _auxiliary(has_aux))
    return transformed(fun, has_aux=has_aux, **kwargs)


def jacrev(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """`pyjax.jacrev` of functions whose arguments may be sparse; see `jacfwd`.

    >>> import numpy as np
    >>> m = BCOO.fromdense(np.eye(2, dtype=np.float32))
    >>> jacrev(lambda m: m @ np.ones(2, np.float32))(m)
    BCOO(float32[2, 2, 2], nse=2, n_batch=1)
    """
    transformed = _by_data(_jacrev, _jacobian_of, argnums, _auxiliary(has_aux))
    return transformed(fun, has_aux=has_aux, **kwargs)


jacobian = jacrev
__all__ = ["JAXSparse", "grad", "jacfwd", "jacobian", "jacrev", "value_and_grad"]
