"""Vectorisation: vmap's trace, helpers for batching rules, and the batching of jaxprs.

Layer: interpreters.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax.core import dtypes
from pyjax.core.avals import ShapedArray, abstractify
from pyjax.core.axis_env import under_axis
from pyjax.core.debug_info import UNKNOWN, DebugInfo
from pyjax.core.effects import NamedAxisEffect
from pyjax.core.jaxpr import ClosedJaxpr, jaxprs_in_params
from pyjax.core.primitive import Primitive
from pyjax.core.structural import broadcast_in_dim, moveaxis, reduce_sum
from pyjax.core.trace import CustomCall, Trace, Tracer, state, under
from pyjax.interpreters.partial_eval import trace_to_jaxpr
from pyjax.interpreters.rules import (
    PerPrimitive,
    batching_rules,
    collective_batching_rules,
    elementwise_primitives,
)
from pyjax.interpreters.trace_cache import jaxpr_cache

not_mapped = None
FlatFun = Callable[..., Sequence[Any]]
Dim = int | None


class _CurrentAxis(threading.local):
    # Name of the axis whose batching rule is running: rules of primitives with jaxprs inside pass
    # it on.
    name: Any = None


_current_axis = _CurrentAxis()


class BatchTracer(Tracer):
    """A value with one more axis than the function sees."""

    __slots__ = ("dim", "val")

    def __init__(self, trace: BatchTrace, val: Any, dim: int) -> None:
        self._trace = trace
        self.val = val
        self.dim = dim
        aval = abstractify(val)
        shape = aval.shape
        self.aval = ShapedArray(shape[:dim] + shape[dim + 1 :], aval.dtype, aval.weak_type)

    def _description(self) -> str:
        return f" with val = {self.val!r}, batch_dim = {self.dim}"


class BatchTrace(Trace):
    """Applies batching rules under `parent`."""

    def __init__(
        self, parent: Trace, axis_size: int, axis_name: Any = None, debug_info: DebugInfo = UNKNOWN
    ) -> None:
        self.parent: Trace = parent
        self.axis_size = axis_size
        self.axis_name = axis_name
        self.debug_info = debug_info
        self.closed = False

    def split(self, x: Any) -> tuple[Any, Dim]:
        """(value, batch dimension or None)."""
        if type(x) is BatchTracer and x._trace is self:
            return x.val, x.dim
        return x, not_mapped

    def _join(self, value: Any, dim: Dim) -> Any:
        return value if dim is None else BatchTracer(self, value, dim)

    def process_primitive(
        self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]
    ) -> list[Any]:
        values = []
        dims: list[Dim] = []
        mapped = False
        for x in args:
            if type(x) is BatchTracer and x._trace is self:
                values.append(x.val)
                dims.append(x.dim)
                mapped = True
            else:
                values.append(x)
                dims.append(None)
        collective = None
        axis_name = self.axis_name
        if axis_name is not None:
            if primitive in collective_batching_rules and axis_name in named_axes(params):
                collective = collective_batching_rules[primitive]
            mapped = mapped or any(
                NamedAxisEffect(axis_name) in j.effects for j in jaxprs_in_params(params)
            )
        parent = self.parent
        outer = state.traces
        outer_axis = _current_axis.name
        state.traces = [parent]
        _current_axis.name = axis_name
        try:
            if collective is not None:
                outs, out_dims = collective(axis_name, self.axis_size, values, dims, **params)
            elif not mapped:
                return parent.process_primitive(primitive, args, params)
            else:
                outs, out_dims = batching_rules[primitive](self.axis_size, values, dims, **params)
        finally:
            state.traces = outer
            _current_axis.name = outer_axis
        return [o if d is None else BatchTracer(self, o, d) for o, d in zip(outs, out_dims)]

    def process_custom_call(self, call: CustomCall, args: Sequence[Any]) -> list[Any]:
        pairs = [self.split(x) for x in args]
        values, dims = [v for v, _ in pairs], [d for _, d in pairs]
        outer = state.traces
        state.traces = [self.parent]
        try:
            if all(d is None for d in dims) and self.axis_name is None:
                return self.parent.process_custom_call(call, values)
            outs = self.parent.process_custom_call(call.batched(self, dims), values)
        finally:
            state.traces = outer
        return [BatchTracer(self, o, 0) for o in outs]

    def batched(self, fun: FlatFun, dims: Sequence[Dim]) -> Callable[..., list[Any]]:
        """`fun` over values batched at `dims`; every output is batched at 0."""

        def batched(*values: Any) -> list[Any]:
            return batch(fun, values, dims, 0, self.axis_size, self.axis_name, self.debug_info)

        return batched

    def batched_bwd(self, bwd: FlatFun, dims: Sequence[Dim]) -> Callable[..., list[Any]]:
        """Residuals and cotangents come batched at 0; cotangents go out as the primals came in."""

        def batched(*values: Any) -> list[Any]:
            in_dims = [0] * len(values)
            outs = batch(bwd, values, in_dims, 0, self.axis_size, self.axis_name, self.debug_info)
            return [_as_cotangent(o, d) for o, d in zip(outs, dims)]

        return batched

    def origin(self) -> str:
        return self.debug_info.describe()


def _as_cotangent(x: Any, dim: Dim) -> Any:
    """A cotangent batched at 0 for a primal batched at `dim`; for an unbatched one the sum."""
    if abstractify(x).dtype == dtypes.float0:  # of integers: a shape, no numbers
        shape = list(x.shape[1:])
        if dim is not None:
            shape.insert(dim, x.shape[0])
        return np.zeros(shape, dtypes.float0)
    return reduce_sum(x, (0,)) if dim is None else moveaxis(x, 0, dim)


def named_axes(params: dict[str, Any]) -> tuple[Any, ...]:
    """Axis names in the parameters of a collective."""
    names = params.get("axis_name", params.get("axes", ()))
    return tuple(names) if isinstance(names, (tuple, list)) else (names,)


def batch(
    fun: FlatFun,
    values: Sequence[Any],
    in_dims: Sequence[Dim],
    out_dims: Sequence[Dim] | int,
    axis_size: int,
    axis_name: Any = None,
    debug: DebugInfo = UNKNOWN,
) -> list[Any]:
    """Apply a flat function to values batched at `in_dims`; outputs batched at `out_dims`.

    One integer stands for all outputs; None demands that an output is not batched.
    Raises:
      ValueError: an output is batched where None was demanded.
    """
    outs, dims = batch_with_dims(fun, values, in_dims, axis_size, axis_name, debug)
    wanted = [out_dims] * len(outs) if isinstance(out_dims, int) else out_dims
    return [
        match_bdim(x, axis_size, have, want, i)
        for i, (x, have, want) in enumerate(zip(outs, dims, wanted))
    ]


def batch_with_dims(
    fun: FlatFun,
    values: Sequence[Any],
    in_dims: Sequence[Dim],
    axis_size: int,
    axis_name: Any = None,
    debug: DebugInfo = UNKNOWN,
) -> tuple[list[Any], list[Dim]]:
    """Like `batch`, with output dimensions where they fell."""
    trace = BatchTrace(state.traces[0], axis_size, axis_name, debug)
    args = [v if d is None else BatchTracer(trace, v, d) for v, d in zip(values, in_dims)]
    outs = under(trace, under_axis, axis_name, axis_size, fun, *args)
    trace.closed = True
    pairs = [trace.split(x) for x in outs]
    return [v for v, _ in pairs], [d for _, d in pairs]


def match_bdim(x: Any, axis_size: int, have: Dim, want: Dim, index: int = 0) -> Any:
    """Move (or make) the batch axis where it is wanted."""
    if want is None:
        if have is not None:
            raise ValueError(
                f"vmap has mapped output {index} but out_axes is None: its value differs between "
                "the mapped elements. Give it an axis in out_axes."
            )
        return x
    if have is None:
        return broadcast_bdim(x, axis_size, want)
    ndim = abstractify(x).ndim
    return moveaxis(x, have, want + ndim if want < 0 else want)


# -- helpers for rules ----------------------------------------------------------------------------


def move_bdim(x: Any, source: int, destination: int) -> Any:
    """Move the batch axis."""
    return moveaxis(x, source, destination)


def broadcast_bdim(x: Any, size: int, dim: int) -> Any:
    """A new axis of `size` at `dim`."""
    shape = abstractify(x).shape
    ndim = len(shape) + 1
    if dim < 0:
        dim += ndim
    out_shape = (*shape[:dim], size, *shape[dim:])
    kept = tuple(i for i in range(ndim) if i != dim)
    return broadcast_in_dim(x, out_shape, kept)


def bdim_at_front(x: Any, dim: Dim, size: int) -> Any:
    """`x` batched at axis 0, broadcast if it is not batched."""
    return broadcast_bdim(x, size, 0) if dim is None else moveaxis(x, dim, 0)


def _elementwise_rule(primitive: Primitive) -> Callable[..., tuple[list[Any], list[Dim]]]:
    elementwise_primitives.add(primitive)

    def rule(
        axis_size: int, args: Sequence[Any], dims: Sequence[Dim], **params: Any
    ) -> tuple[list[Any], list[Dim]]:
        first = next(d for d in dims if d is not None)
        if not all(d == first for d in dims):
            first = 0
            args = [bdim_at_front(x, d, axis_size) for x, d in zip(args, dims)]
        outs = primitive.bind(*args, **params)
        return outs, [first] * len(outs)

    return rule


# Elementwise primitives of any arity: `batching=elementwise_batching` in define_primitive.
elementwise_batching = PerPrimitive(_elementwise_rule)


# -- jaxprs ---------------------------------------------------------------------------------------


def batch_jaxpr(
    closed: ClosedJaxpr,
    axis_size: int,
    in_batched: Sequence[bool],
    instantiate: bool | Sequence[bool] = False,
    axis_name: Any = None,
) -> tuple[ClosedJaxpr, list[bool]]:
    """The batched jaxpr (batch axes at 0) and which outputs are batched.

    Args:
      axis_name: default: that of the vmap whose batching rule is running.
      instantiate: outputs to batch in any case (one flag or one per output).
    """
    if not isinstance(instantiate, bool):
        instantiate = tuple(map(bool, instantiate))
    if axis_name is None:
        axis_name = _current_axis.name
    new, out_batched = _batch_jaxpr(
        closed, axis_size, tuple(map(bool, in_batched)), instantiate, axis_name
    )
    return new, list(out_batched)


@jaxpr_cache
def _batch_jaxpr(
    closed: ClosedJaxpr,
    axis_size: int,
    in_batched: tuple[bool, ...],
    instantiate: bool | tuple[bool, ...],
    axis_name: Any,
) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
    if isinstance(instantiate, bool):
        instantiate = (instantiate,) * len(closed.out_avals)
    forced = instantiate
    out_batched: list[bool] = []

    def fun(*args: Any) -> list[Any]:
        dims = [0 if b else None for b in in_batched]
        outs, out_dims = batch_with_dims(
            closed.eval, args, dims, axis_size, axis_name, closed.jaxpr.debug_info
        )
        result = []
        for x, d, force in zip(outs, out_dims, forced):
            out_batched.append(d is not None or force)
            result.append(bdim_at_front(x, d, axis_size) if out_batched[-1] else x)
        return result

    avals = [
        ShapedArray((axis_size, *a.shape), a.dtype, a.weak_type) if b else a
        for a, b in zip(closed.in_avals, in_batched)
    ]
    new, _ = trace_to_jaxpr(fun, avals, debug=closed.jaxpr.debug_info)
    return new, tuple(out_batched)
