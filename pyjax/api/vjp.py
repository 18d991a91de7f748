"""vjp and linear_transpose: pullbacks of functions. Layer: api."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax.api.accumulators import accumulating
from pyjax.api.flat import check_arrays, check_callable, check_leaves
from pyjax.core import dtypes
from pyjax.core.avals import abstractify
from pyjax.core.debug_info import DebugInfo
from pyjax.core.errors import new_error
from pyjax.core.traceback_filter import api_boundary
from pyjax.core.tree_util import (
    GetAttrKey,
    Partial,
    PyTreeDef,
    register_pytree_with_keys,
    tree_flatten,
    tree_structure,
    tree_unflatten,
)
from pyjax.interpreters import ad
from pyjax.interpreters.flat_function import FlatFunction
from pyjax.interpreters.linearize import Linearized, linearize_aux
from pyjax.interpreters.tangents import UndefinedPrimal, Zero
from pyjax.interpreters.traced_function import trace_function


class Pullback:
    """The static part of a pullback; its residuals are passed at each call (see
    `tree_util.Partial`)."""

    def __init__(
        self,
        linear: Linearized,
        in_tree: PyTreeDef,
        in_avals: list[Any],
        out_tree: PyTreeDef,
        out_avals: list[Any],
        kept_arguments: Sequence[int | None],
    ) -> None:
        self.jaxpr = linear.jaxpr
        self.kept_arguments = kept_arguments  # which residual an argument leaf is, if it is one
        self._nonzero_in = linear.nonzero_in
        self._nonzero_out = linear.nonzero_out
        self.in_tree = in_tree
        self._in_avals = in_avals
        self.out_tree = out_tree
        self._out_avals = out_avals

    @api_boundary
    def __call__(self, residuals: list[Any], *args: Any) -> Any:
        if len(args) != 1:
            raise new_error(
                TypeError,
                "The function returned by `jax.vjp` applied to a function was called with "
                f"{len(args)} arguments, but functions returned by `jax.vjp` must be called with "
                "a single argument corresponding to the single value returned by the function "
                "(even if that returned value is a tuple or other container).",
            )
        cts, ct_tree = tree_flatten(args[0])
        if ct_tree != self.out_tree:
            raise new_error(
                ValueError,
                f"Tree structure of cotangent input {ct_tree}, does not match structure of primal "
                f"output {self.out_tree}.",
                "There is one cotangent for each output of the function.",
                "Pass what has the structure of the output, with zeros for what does not matter.",
            )
        for ct, aval in zip(cts, self._out_avals):
            _check_cotangent(ct, aval)
        dense = [ct for ct, nz in zip(cts, self._nonzero_out) if nz]
        primals = [UndefinedPrimal(v.aval) for v in self.jaxpr.invars]
        found = iter(ad.backward_pass(self.jaxpr, residuals, primals, dense))
        leaves = [
            _instantiate(next(found)) if nz else ad.zero_tangent_array(a)
            for nz, a in zip(self._nonzero_in, self._in_avals)
        ]
        return tree_unflatten(self.in_tree, leaves)


class NotNeeded:
    """In the place of an argument whose value the derivative does not need."""

    def __repr__(self) -> str:
        return "NotNeeded()"


class VJP(Partial):
    """What `vjp` returns beside the value: the pullback, a pytree."""

    @property
    def fun(self) -> Callable[..., Any]:
        """What is called with the residuals and the cotangent."""
        return self.func

    @property
    def jaxpr(self) -> Any:
        """The derivative as a linear program: of residuals (its constants) and tangents."""
        return self._pullback.jaxpr

    @property
    def in_tree(self) -> PyTreeDef:
        """The structure of the arguments."""
        return self._pullback.in_tree

    @property
    def out_tree(self) -> PyTreeDef:
        """The structure of the value."""
        return self._pullback.out_tree

    @property
    def args_res(self) -> list[Any]:
        """For each argument leaf, itself if the derivative needs its value, or `NotNeeded()`."""
        positions = self._pullback.kept_arguments
        return [NotNeeded() if i is None else self.args[0][i] for i in positions]

    @property
    def opaque_residuals(self) -> list[Any]:
        """What else the derivative needs: values that the function computed on its way."""
        arguments = set(self._pullback.kept_arguments)
        return [x for i, x in enumerate(self.args[0]) if i not in arguments]

    @property
    def _pullback(self) -> Pullback:
        return self.func  # type: ignore[return-value]

    def with_refs(self, *targets: Any) -> Partial:
        """A pullback that adds cotangents to references.

        Args:
          targets: for each argument a tree as it is, with a Ref for each array, to which its
            cotangent is added; `pyjax.ad.GradValue()` for one that is to be returned, or
            `pyjax.ad.DontWant()`.
        Returns:
          A function of the cotangent of the output. It returns a tree as that of the arguments,
          with `pyjax.ad.GradRef()` in the places of references.
        Raises:
          ValueError: another tree; when called, a reference of another shape or dtype.

        >>> import pyjax
        >>> total = pyjax.new_ref(0.0)
        >>> _, pullback = vjp(lambda x: x * x, 3.0)
        >>> pullback.with_refs(total)(1.0), pullback.with_refs(total)(1.0), total
        ((GradRef(),), (GradRef(),), Ref(12., dtype=float32, weak_type=True))
        """
        return accumulating(self._pullback, self.args[0], self.in_tree, targets)


register_pytree_with_keys(
    VJP,
    lambda p: (((GetAttrKey("args"), p.args),), p.func),
    lambda func, parts: VJP(func, *parts[0]),
)


def _instantiate(ct: Any) -> Any:
    return ad.instantiate_zeros(ct) if type(ct) is Zero else ct


def _check_cotangent(ct: Any, aval: Any) -> None:
    expected = aval.to_tangent_aval()
    check_arrays("vjp", ct, "Cotangent")
    got = abstractify(ct)
    # Of integers nothing is asked but the shape: whatever it holds, there is no derivative.
    if got.shape == expected.shape and expected.dtype in (got.dtype, dtypes.float0):
        if got.split is None or got.split == expected.cotangent_split():
            return
    raise new_error(
        ValueError,
        "unexpected JAX type (e.g. shape/dtype) for argument to VJP function: got "
        f"{got.str_short()}, but expected {expected.str_short()} because the corresponding output "
        f"of the differentiated function had JAX type {aval.str_short()}",
        "A cotangent has the shape and dtype of its output.",
        "jnp.ones_like(output) is one.",
    )


@api_boundary
def vjp(
    fun: Callable[..., Any], *primals: Any, has_aux: bool = False, reduce_axes: Any = ()
) -> Any:
    """Value of `fun` at `primals` and its pullback (vector-Jacobian product).

    Args:
      fun: function of pytrees of arrays.
      primals: where to differentiate; integer inputs get float0 cotangents.
      has_aux: `fun` returns (output, auxiliary data).
    Returns:
      (output, pullback) or (output, pullback, aux). `pullback(cotangent of output)` gives the tuple
      of cotangents of the primals; it is a pytree, so it may cross jit.
    Raises:
      TypeError: primals that are not arrays. The pullback raises ValueError for a cotangent of
        another structure, shape or dtype than the output.

    >>> out, pullback = vjp(lambda x, y: x * y, 3.0, 4.0)
    >>> [float(g) for g in pullback(1.0)]
    [4.0, 3.0]
    """
    if reduce_axes:
        raise new_error(
            NotImplementedError,
            "reduce_axes argument to vjp is deprecated",
            "axes of vmap are summed over where the function says so",
            "Leave it out, and write lax.psum in the function.",
        )
    check_callable(fun)
    leaves, in_tree = tree_flatten(primals)
    check_leaves("vjp", leaves, primals)
    flat = FlatFunction(fun, in_tree, has_aux)
    debug = DebugInfo("vjp", fun)
    outs, linear, aux = linearize_aux(flat.with_aux, leaves, None, debug)
    assert flat.out_tree is not None
    out_avals = [abstractify(x) for x in outs]
    in_avals = [abstractify(x) for x in leaves]
    numbers = {id(x): i for i, x in enumerate(linear.residuals)}
    kept = [numbers.get(id(x)) for x in leaves]
    static = Pullback(linear, in_tree, in_avals, flat.out_tree, out_avals, kept)
    pullback = VJP(static, linear.residuals)
    out = tree_unflatten(flat.out_tree, outs)
    if not has_aux:
        return out, pullback
    assert flat.aux_tree is not None
    return out, pullback, tree_unflatten(flat.aux_tree, aux)


@api_boundary
def linear_transpose(fun: Callable[..., Any], *primals: Any, reduce_axes: Any = ()) -> Callable:
    """Transpose a function that is known to be linear, without evaluating it.

    Args:
      fun: linear function of pytrees of arrays.
      primals: arrays or `ShapeDtypeStruct`s; only shapes and dtypes matter.
    Returns:
      A function from the cotangent of the output to the tuple of cotangents of the primals.
    Raises:
      TypeError: inputs or outputs are not of inexact dtype.
      NotImplementedError: an operation in `fun` is not linear.

    >>> f = lambda x: x * 3.0
    >>> float(linear_transpose(f, 1.0)(2.0)[0])
    6.0
    """
    if reduce_axes:
        raise new_error(
            NotImplementedError,
            "reduce_axes argument to transpose is deprecated",
            "axes of vmap are summed over where the function says so",
            "Leave it out, and write lax.psum in the function.",
        )
    check_callable(fun)
    leaves, in_tree = tree_flatten(primals)
    in_avals = [abstractify(x) for x in leaves]
    call_tree = tree_structure((primals, {}))
    traced = trace_function("linear_transpose", fun, call_tree, in_avals, static_key=None)
    closed, out_tree, out_avals = traced.with_constants, traced.out_tree, traced.out_avals
    _check_linear_types(in_avals, out_avals)

    def transposed(ct: Any) -> Any:
        cts, ct_tree = tree_flatten(ct)
        if ct_tree != out_tree:
            raise new_error(
                TypeError,
                f"cotangent tree does not match function output, expected {out_tree} but got "
                f"{ct_tree}",
            )
        for x, aval in zip(cts, out_avals):
            got = abstractify(x)
            if (got.shape, got.dtype) != (aval.shape, aval.dtype):
                raise new_error(
                    TypeError,
                    "cotangent type does not match function output, expected "
                    f"{aval.str_short()} but got {got.str_short()}",
                )
        undefined = [UndefinedPrimal(a) for a in in_avals]
        found = ad.backward_pass(closed.jaxpr, closed.consts, undefined, cts)
        return tree_unflatten(in_tree, [ad.instantiate_zeros(x) for x in found])

    return transposed


def _check_linear_types(in_avals: Sequence[Any], out_avals: Sequence[Any]) -> None:
    inexact = all(dtypes.issubdtype(a.dtype, np.inexact) for a in (*in_avals, *out_avals))
    if not inexact:
        raise new_error(
            TypeError,
            "linear_transpose only supports [float or complex] -> [float or complex], and [int or "
            f"bool] constants, but got {[a.str_short() for a in in_avals]} -> "
            f"{[a.str_short() for a in out_avals]}.",
        )
