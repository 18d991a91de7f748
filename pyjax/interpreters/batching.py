"""Vectorisation: vmap's trace, helpers for batching rules, and the batching of jaxprs.

Layer: interpreters.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax._config import options
from pyjax._config.registry import unlisted_option
from pyjax.core import axis_env, call_chains, dtypes
from pyjax.core.avals import ShapedArray, Split, abstractify
from pyjax.core.axis_env import under_axis
from pyjax.core.debug_info import UNKNOWN, DebugInfo
from pyjax.core.effects import NamedAxisEffect
from pyjax.core.fault_checks import Lane, fault_checks, in_lane
from pyjax.core.jaxpr import ClosedJaxpr, jaxprs_in_params
from pyjax.core.leaks import check_leaks
from pyjax.core.primitive import Primitive
from pyjax.core.structural import moveaxis, pvary, reduce_sum
from pyjax.core.trace import CustomCall, Trace, Tracer, state, under
from pyjax.interpreters.batch_dims import (
    Dim,
    bdim_at_front,
    broadcast_bdim,
    elementwise_batching,
    match_bdim,
    move_bdim,
    not_mapped,
    running,
    running_axis,
    running_split,
)
from pyjax.interpreters.batching_tables import (
    AxisData,
    axis_primitive_batchers,
    defbroadcasting,
    defreducer,
    defvectorized,
    fancy_primitive_batchers,
    primitive_batchers,
)
from pyjax.interpreters.discharge import bind_discharged, uses_refs
from pyjax.interpreters.partial_eval import trace_to_jaxpr
from pyjax.interpreters.rules import (
    batches_unmapped,
    batching_rules,
    call_discharge_rules,
    collective_batching_rules,
)
from pyjax.interpreters.splits import names_of
from pyjax.interpreters.tangents import Zero
from pyjax.interpreters.trace_cache import jaxpr_cache

__all__ = [
    "broadcast",
    "AxisData",
    "BatchTrace",
    "BatchTracer",
    "MappedCall",
    "axis_primitive_batchers",
    "batch",
    "batch_jaxpr",
    "batch_with_dims",
    "bdim_at_front",
    "broadcast_bdim",
    "defbroadcasting",
    "defreducer",
    "defvectorized",
    "elementwise_batching",
    "fancy_primitive_batchers",
    "match_bdim",
    "move_bdim",
    "named_axes",
    "not_mapped",
    "over_devices",
    "primitive_batchers",
    "running_axis",
    "running_split",
    "split_along",
]

# Whether axes that are mapped stand for devices, each of which runs the program for itself.
over_devices = unlisted_option("mapped over devices", False)

FlatFun = Callable[..., Sequence[Any]]


def broadcast(x: Any, sz: int, axis: int, mesh_axis: Any = None) -> Any:
    """`x` repeated `sz` times along a new dimension `axis`.

    >>> import pyjax.numpy as jnp
    >>> broadcast(jnp.zeros(2), 3, 1).shape
    (2, 3)
    """
    return broadcast_bdim(x, sz, axis)


class BatchTracer(Tracer):
    """A value with one more axis than the function sees."""

    __slots__ = ("dim", "val")

    def __init__(self, trace: BatchTrace, val: Any, dim: int) -> None:
        self._trace = trace
        self.val = val
        self.dim = dim
        aval = abstractify(val)
        if type(aval) is ShapedArray:
            shape = aval.shape
            shape = shape[:dim] + shape[dim + 1 :]
            self.aval = ShapedArray(shape, aval.dtype, aval.weak_type)
        else:
            self.aval = aval.without_dim(dim)

    def _description(self) -> str:
        return f" with val = {self.val!r}, batch_dim = {self.dim}"


class BatchTrace(Trace):
    """Applies batching rules under `parent`."""

    kind = "batching"

    def __init__(
        self,
        parent: Trace,
        axis_size: int,
        axis_name: Any = None,
        debug_info: DebugInfo = UNKNOWN,
        mesh_axes: tuple[Any, ...] = (),
    ) -> None:
        self.parent: Trace = parent
        self.axis_size = axis_size
        self.axis_name = axis_name
        self.mesh_axes = mesh_axes  # that cut the axis, where there is a mesh (spmd_axis_name)
        self.along: Split | None = None  # how types say that mapped values are split along it
        self.debug_info = debug_info
        self.closed = False
        self.lent = False  # while the parent processes a call for it, which may run under it again
        self._names_lanes = fault_checks() is not None
        self._made: dict[int, Any] | None = (
            {} if options.check_tracer_leaks.here()[0].value else None
        )

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
        if primitive in call_discharge_rules and uses_refs(args, params):
            return bind_discharged(primitive, args, params)
        values = []
        dims: list[Dim] = []
        mapped = primitive in batches_unmapped
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
        outer_running = running.trace
        state.traces = [parent]
        running.trace = self
        try:
            if collective is not None:
                outs, out_dims = collective(axis_name, self.axis_size, values, dims, **params)
            elif not mapped:
                return parent.process_primitive(primitive, args, params)
            elif self._names_lanes:
                outs, out_dims = self._batched_by_name(primitive, values, dims, params)
            else:
                outs, out_dims = batching_rules[primitive](self.axis_size, values, dims, **params)
        finally:
            state.traces = outer
            running.trace = outer_running
        made = [o if d is None else BatchTracer(self, o, d) for o, d in zip(outs, out_dims)]
        if self._made is not None:
            self._made.update({id(x): call_chains.current_frame() for x in made})
        return made

    def made_at(self, tracer: Tracer) -> Any:
        return None if self._made is None else self._made.get(id(tracer))

    def _batched_by_name(
        self, primitive: Primitive, values: list[Any], dims: list[Dim], params: dict[str, Any]
    ) -> tuple[list[Any], list[Any]]:
        """The primitive's rule, under a frame that knows this axis."""
        lane = Lane(self.axis_size, self.axis_name)
        lane.learn([np.shape(x) for x in values], dims)
        override = call_chains.override
        outer = override.frame
        override.frame = in_lane(lane)
        try:
            outs, out_dims = batching_rules[primitive](self.axis_size, values, dims, **params)
        finally:
            override.frame = outer
        lane.learn([np.shape(x) for x in outs], out_dims)
        return outs, out_dims

    def process_custom_call(self, call: CustomCall, args: Sequence[Any]) -> list[Any]:
        pairs = [self.split(x) for x in args]
        mapped = MappedCall(self, [d for _, d in pairs])
        outer, outer_lent = state.traces, self.lent
        state.traces, self.lent = [self.parent], True
        try:
            outs = self.parent.process_custom_call(call.batched(mapped), [v for v, _ in pairs])
        finally:
            state.traces, self.lent = outer, outer_lent
        return [BatchTracer(self, o, 0) if m else o for o, m in zip(outs, mapped.which(outs))]

    def run(
        self, fun: FlatFun, values: Sequence[Any], in_dims: Sequence[Dim]
    ) -> tuple[list[Any], list[Dim]]:
        """Outputs of a flat function of values batched at `in_dims`, and where they are batched."""
        self.along = self.along or split_along(values, in_dims)
        if self.along is not None and not self.mesh_axes:
            self.mesh_axes = tuple(names_of(self.along.entries))
        args = [v if d is None else BatchTracer(self, v, d) for v, d in zip(values, in_dims)]
        outs = under(self, under_axis, self.axis_name, self.axis_size, fun, *args)
        pairs = [self.split(x) for x in outs]
        return [v for v, _ in pairs], [d for _, d in pairs]

    def origin(self) -> str:
        return self.debug_info.describe()


def split_along(values: Sequence[Any], dims: Sequence[Dim]) -> Split | None:
    """How the dimension that is mapped is split in the first value of which types say it."""
    for x, dim in zip(values, dims):
        aval = None if dim is None else getattr(x, "aval", None)
        split = None if aval is None else aval.split
        if split is not None and dim is not None and split.entries[dim] is not None:
            return Split(split.mesh, (split.entries[dim],))
    return None


class MappedCall:
    """A call of a function with a derivative rule of its own, as vmap passes it on.

    What the function and its rules close over may be mapped too, so they run under the trace that
    maps the call: its tracers are theirs. A rule that was recorded runs when that vmap is over;
    what was mapped there is gone then, and the rule runs under a trace of its own.

    Attributes:
      outputs_mapped: all outputs, or none; None until it is known. With mapped operands, or an axis
        by whose name collectives can ask, they are mapped whatever runs, so that the function and
        its rules agree. Otherwise what runs first decides: only what it closes over can be mapped.
    """

    def __init__(self, trace: BatchTrace, dims: Sequence[Dim]) -> None:
        self._trace = trace
        self._dims = dims
        any_mapped = trace.axis_name is not None or any(d is not None for d in dims)
        self.outputs_mapped: bool | None = True if any_mapped else None
        self._by_rule: list[bool] | None = None

    @property
    def axis_size(self) -> int:
        return self._trace.axis_size

    @property
    def num_operands(self) -> int:
        return len(self._dims)

    def maps(self, operand: int) -> bool:
        """Whether the operand of that number is mapped."""
        return self._dims[operand] is not None

    def which(self, outs: Sequence[Any]) -> Sequence[bool]:
        """Which outputs are mapped, at axis 0."""
        return self._by_rule or [bool(self.outputs_mapped)] * len(outs)

    def by_rule(
        self, rule: Callable[..., tuple[Sequence[Any], Sequence[bool]]]
    ) -> Callable[..., list[Any]]:
        """What `rule(axis_size, in_batched, *operands)` makes of operands that are batched at axis
        0, or not at all. It gives the outputs, and which of them are batched."""

        def batched(*values: Any) -> list[Any]:
            moved = [x if d is None else moveaxis(x, d, 0) for x, d in zip(values, self._dims)]
            outs, flags = rule(self.axis_size, [d is not None for d in self._dims], *moved)
            self._by_rule = list(flags)
            return list(outs)

        return batched

    def values(self, closed_over: Sequence[Any]) -> list[Any]:
        """What the parent trace sees of values that the function closes over."""
        return [self._trace.split(x)[0] for x in closed_over]

    def batched(self, fun: FlatFun, copies: int = 1) -> Callable[..., list[Any]]:
        """`fun`, of as many copies of the operands, over batched values."""
        dims = list(self._dims) * copies

        def batched(*values: Any) -> list[Any]:
            return self._placed(*self._run(fun, values, dims))

        return batched

    def batched_bwd(self, bwd: FlatFun) -> Callable[..., list[Any]]:
        """Residuals and cotangents come as the outputs of the forward rule went; cotangents go out
        as the operands came in."""

        def batched(*values: Any) -> list[Any]:
            if not self.outputs_mapped:
                return list(bwd(*values))
            outs, dims = self._run(bwd, values, [0] * len(values))
            return [_as_cotangent(o, d) for o, d in zip(self._placed(outs, dims), self._dims)]

        return batched

    def batched_transpose(self, rule: FlatFun, num_residuals: int) -> Callable[..., list[Any]]:
        """The transpose of a linear call: residuals come as its first operands went in, cotangents
        as its outputs went; cotangents of its other operands go out as these came in."""
        residual_dims, linear_dims = self._dims[:num_residuals], self._dims[num_residuals:]

        def batched(*values: Any) -> list[Any]:
            if not self.outputs_mapped:
                return list(rule(*values))
            cts = values[num_residuals:]
            outs, dims = self._run(rule, values, [*residual_dims, *[0] * len(cts)])
            return [_as_cotangent(o, d) for o, d in zip(self._placed(outs, dims), linear_dims)]

        return batched

    def _placed(self, outs: list[Any], dims: list[Dim]) -> list[Any]:
        if self.outputs_mapped is None:
            self.outputs_mapped = any(d is not None for d in dims)
        if not self.outputs_mapped:
            return outs
        size = self._trace.axis_size
        return [
            Zero(x.aval.with_dim(0, size, self._trace.along))
            if type(x) is Zero
            else bdim_at_front(x, d, size)
            for x, d in zip(outs, dims)
        ]

    def _run(
        self, fun: FlatFun, values: Sequence[Any], dims: Sequence[Dim]
    ) -> tuple[list[Any], list[Dim]]:
        # Zeros that are known to be zeros stay so: they have no axis to be mapped at.
        zeros = [type(x) is Zero for x in values]
        values = [_zero_of_a_lane(x, d) if z else x for x, d, z in zip(values, dims, zeros)]
        dims = [None if z else d for d, z in zip(dims, zeros)]
        trace = self._trace
        if not trace.lent:
            name, debug = trace.axis_name, trace.debug_info
            return batch_with_dims(fun, values, dims, trace.axis_size, name, debug, trace.mesh_axes)
        outer = trace.parent
        trace.parent, trace.lent = state.traces[0], False
        try:
            return trace.run(fun, values, dims)
        finally:
            trace.parent, trace.lent = outer, True


def _zero_of_a_lane(x: Zero, dim: Dim) -> Zero:
    if dim is None:
        return x
    return Zero(x.aval.without_dim(dim))


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
    return axis_env.names_of(params.get("axis_name", params.get("axes", ())))


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
    mesh_axes: tuple[Any, ...] = (),
) -> tuple[list[Any], list[Dim]]:
    """Like `batch`, with output dimensions where they fell."""
    trace = BatchTrace(state.traces[0], axis_size, axis_name, debug, mesh_axes)
    results = trace.run(fun, values, in_dims)
    trace.closed = True
    if options.check_tracer_leaks.here()[0].value:
        over = weakref.ref(trace)
        del trace
        check_leaks(over)
    return results


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
    running, mesh_axes = running_axis()
    axis_name = running if axis_name is None else axis_name
    new, out_batched = _batch_jaxpr(
        closed,
        axis_size,
        tuple(map(bool, in_batched)),
        instantiate,
        axis_name,
        mesh_axes,
        running_split(),
    )
    return new, list(out_batched)


@jaxpr_cache
def _batch_jaxpr(
    closed: ClosedJaxpr,
    axis_size: int,
    in_batched: tuple[bool, ...],
    instantiate: bool | tuple[bool, ...],
    axis_name: Any,
    mesh_axes: tuple[Any, ...],
    split: Split | None,
) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
    if isinstance(instantiate, bool):
        instantiate = (instantiate,) * len(closed.out_avals)
    forced = instantiate
    out_batched: list[bool] = []

    def fun(*args: Any) -> list[Any]:
        dims = [0 if b else None for b in in_batched]
        outs, out_dims = batch_with_dims(
            closed.eval, args, dims, axis_size, axis_name, closed.jaxpr.debug_info, mesh_axes
        )
        result = []
        for x, d, force in zip(outs, out_dims, forced):
            out_batched.append(d is not None or force)
            if out_batched[-1]:
                x = pvary(bdim_at_front(x, d, axis_size), along)
            result.append(x)
        return result

    # Inside of a shard_map that cuts the axis, what is mapped varies along the mesh axes.
    along = axis_env.mesh_axes(mesh_axes) if options.check_vma.here()[0].value else frozenset[Any]()
    avals = [
        a.with_dim(0, axis_size, split).update(vma=a.vma | along) if b else a
        for a, b in zip(closed.in_avals, in_batched)
    ]
    new, _ = trace_to_jaxpr(fun, avals, debug=closed.jaxpr.debug_info)
    return new, tuple(out_batched)
