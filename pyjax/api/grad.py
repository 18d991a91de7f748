"""grad and value_and_grad: gradients of scalar functions. Layer: api."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax.api.flat import (
    check_callable,
    check_leaves,
    dtype_of,
    normalize_argnums,
    partial_args,
    wraps,
)
from pyjax.core import dtypes
from pyjax.core.avals import abstractify, is_valid_value
from pyjax.core.debug_info import DebugInfo
from pyjax.core.errors import fail, new_error
from pyjax.core.refs import is_ref
from pyjax.core.source_info import function_location
from pyjax.core.structural import ones_like_aval, pvary
from pyjax.core.trace_state import state
from pyjax.core.tree_util import tree_flatten, tree_unflatten
from pyjax.interpreters import ad
from pyjax.interpreters.flat_function import FlatFunction
from pyjax.interpreters.linearize import linearize_aux
from pyjax.interpreters.staging import is_staging
from pyjax.interpreters.tangents import Zero
from pyjax.runtime.array import DeviceArray
from pyjax.runtime.devices import default_device
from pyjax.runtime.dispatch import constant_array


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[..., Any]:
    """The gradient of a scalar-valued function.

    Args:
      fun: returns a real scalar (shape ()); with `has_aux` a pair (scalar, auxiliary data).
      argnums: position(s) to differentiate; one position gives one gradient, a sequence a tuple.
      has_aux: see `fun`; the gradient function then returns (gradient, aux).
      holomorphic: `fun` is holomorphic: inputs and output are complex.
      allow_int: allow integer inputs; their gradients are float0 arrays.
    Returns:
      A function with the arguments of `fun` that returns the gradient, shaped like the argument(s).
    Raises:
      TypeError (when called): not a scalar, not a real output, integer or complex inputs that the
      flags do not allow.

    >>> float(grad(lambda x: x ** 3)(2.0))
    12.0
    """
    value_and_grad_f = value_and_grad(
        fun,
        argnums=argnums,
        has_aux=has_aux,
        holomorphic=holomorphic,
        allow_int=allow_int,
        reduce_axes=reduce_axes,
    )
    doc = f"Gradient of {_name(fun)} with respect to positional argument(s) {argnums}."

    if has_aux:

        @wraps(fun, "", doc)
        def grad_f_aux(*args: Any, **kwargs: Any) -> Any:
            (_, aux), g = value_and_grad_f(*args, **kwargs)
            return g, aux

        return grad_f_aux

    @wraps(fun, "", doc)
    def grad_f(*args: Any, **kwargs: Any) -> Any:
        return value_and_grad_f(*args, **kwargs)[1]

    return grad_f


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[..., Any]:
    """Like `grad`, returning (value, gradient), or ((value, aux), gradient) with `has_aux`.

    >>> [float(v) for v in value_and_grad(lambda x: x * x)(3.0)]
    [9.0, 6.0]
    """
    if reduce_axes:
        raise new_error(
            NotImplementedError,
            "reduce_axes argument to grad is deprecated",
            "axes of vmap are summed over where the function says so",
            "Leave it out, and write lax.psum in the function.",
        )
    check_callable(fun)
    single = isinstance(argnums, (int, np.integer))
    positions: tuple[Any, ...] = (argnums,) if single else tuple(argnums)  # type: ignore[arg-type]
    highest = max((i if i >= 0 else -i - 1 for i in positions), default=-1)
    debug = DebugInfo("grad", fun)
    doc = f"Value and gradient of {_name(fun)} with respect to positional argument(s) {argnums}."

    @wraps(fun, "", doc)
    def value_and_grad_f(*args: Any, **kwargs: Any) -> Any:
        if highest >= len(args):
            raise new_error(
                TypeError,
                f"differentiating with respect to argnums={argnums} requires at least "
                f"{highest + 1} positional arguments to be passed by the caller, but got only "
                f"{len(args)} positional arguments.",
                "argnums counts from 0, and keyword arguments have no number.",
                "Name an argument that is passed, or pass it by position.",
            )
        numbers = normalize_argnums(positions, len(args), "grad")
        f_partial, dynamic = partial_args(fun, args, kwargs, numbers)
        leaves, in_tree = tree_flatten(dynamic)
        check_leaves("grad", leaves, dynamic)
        for leaf in leaves:
            _check_input("grad", holomorphic, allow_int, leaf)
        flat = FlatFunction(f_partial, in_tree, has_aux)
        outs, linear, aux = linearize_aux(flat.with_aux, leaves, None, debug)
        assert flat.out_tree is not None
        _check_scalar(fun, outs, flat.out_tree)
        (out,) = outs
        _check_output("grad", holomorphic, out)
        one = _one(abstractify(out))
        found = iter(linear.transpose([one]))
        gradients = [
            _dense(next(found)) if nz else ad.zero_tangent_array(abstractify(x))
            for nz, x in zip(linear.nonzero_in, leaves)
        ]
        if type(one) is DeviceArray:  # remembered: what the caller gets, it may donate or delete
            gradients = [copy.copy(one) if g is one else g for g in gradients]
        g = tree_unflatten(in_tree, gradients)
        g = g[0] if single else g
        if not has_aux:
            return out, g
        assert flat.aux_tree is not None
        return (out, tree_unflatten(flat.aux_tree, aux)), g

    return value_and_grad_f


_ones: dict[Any, Any] = {}


def _one(aval: Any) -> Any:
    """The cotangent 1 for a scalar: an Array if the backward pass runs now, a literal if it is
    staged."""
    value: Any = aval.dtype.type(1)
    if abstractify(value).dtype != aval.dtype:  # from a block where 64 bits are on
        return ones_like_aval(aval)
    if aval.weak_type:
        python = complex(1) if aval.dtype.kind == "c" else 1.0
        value = python if abstractify(python) is aval else value
    if is_staging(state.traces[0]):
        return pvary(value, aval.vma) if aval.vma else value
    key = (aval, default_device())
    found = _ones.get(key)
    if found is None or found.is_deleted():
        found = _ones[key] = constant_array(value)
    return found


def _name(fun: Callable[..., Any]) -> str:
    return function_location(fun)


def _dense(ct: Any) -> Any:
    return ad.instantiate_zeros(ct) if type(ct) is Zero else ct


def _check_scalar(fun: Any, outs: list[Any], out_tree: Any) -> None:
    fix = "Reduce the output to a scalar (jnp.sum, jnp.mean), or use jacrev, jacfwd or vjp."
    if not out_tree.is_leaf():
        what = f"Output was a pytree with structure {out_tree}."
        if len(outs) == 2:
            fix = "If the function returns (loss, auxiliary data), pass has_aux=True."
    elif not is_valid_value(outs[0]):
        what = f"Output was {outs[0]!r:.80}."
    elif is_ref(outs[0]):
        what = f"Output was a Ref, {outs[0].aval.str_short()}."
    elif (shape := abstractify(outs[0]).shape) != ():
        what = f"Output had shape: {shape}."
    else:
        return
    fail(
        TypeError,
        f"Gradient only defined for scalar-output functions. {what}",
        f"The function is {function_location(fun)}.",
        fix,
    )


def _check_input(name: str, holomorphic: bool, allow_int: bool, x: Any) -> None:
    if is_ref(x):
        fail(
            TypeError,
            f"{name} was asked for the derivative with respect to a Ref, {x.aval.str_short()}.",
            "a Ref may change while the function runs",
            "Differentiate with respect to what it holds, ref[...], or leave it out of argnums.",
        )
    dtype = dtype_of(x)
    if holomorphic:
        if not dtypes.issubdtype(dtype, np.complexfloating):
            raise new_error(
                TypeError,
                f"{name} with holomorphic=True requires inputs with complex dtype, but got "
                f"{_d(dtype)}.",
            )
        return
    if dtypes.issubdtype(dtype, np.inexact) or allow_int:
        return
    if dtypes.issubdtype(dtype, np.integer) or dtypes.issubdtype(dtype, np.bool_):
        fail(
            TypeError,
            f"{name} requires real- or complex-valued inputs (input dtype that is a sub-dtype of "
            f"np.inexact), but got {_d(dtype)}. If you want to use Boolean- or integer-valued "
            "inputs, use vjp or set allow_int to True.",
            None,
            "Pass floats, for example x.astype(float) or 3.0 instead of 3.",
        )
    raise new_error(
        TypeError,
        f"{name} requires numerical-valued inputs (input dtype that is a sub-dtype of np.bool_ or "
        f"np.number), but got {_d(dtype)}.",
    )


def _check_output(name: str, holomorphic: bool, x: Any) -> None:
    dtype = dtype_of(x)
    if holomorphic:
        if not dtypes.issubdtype(dtype, np.complexfloating):
            raise new_error(
                TypeError,
                f"{name} with holomorphic=True requires outputs with complex dtype, but got "
                f"{_d(dtype)}.",
            )
        return
    if dtypes.issubdtype(dtype, np.complexfloating):
        raise new_error(
            TypeError,
            f"{name} requires real-valued outputs (output dtype that is a sub-dtype of "
            f"np.floating), but got {_d(dtype)}.",
            "The gradient of a complex output depends on the direction, unless the function is "
            "holomorphic.",
            "For holomorphic differentiation, pass holomorphic=True. For differentiation of "
            "non-holomorphic functions involving complex outputs, use jax.vjp directly.",
        )
    if not dtypes.issubdtype(dtype, np.floating):
        raise new_error(
            TypeError,
            f"{name} requires real-valued outputs (output dtype that is a sub-dtype of "
            f"np.floating), but got {_d(dtype)}.",
            "A function with whole numbers as values has no derivative but zero.",
            "Return floats. For differentiation of functions with integer outputs, use jax.vjp "
            "directly.",
        )


def _d(dtype: Any) -> str:
    return getattr(dtype, "name", str(dtype))
