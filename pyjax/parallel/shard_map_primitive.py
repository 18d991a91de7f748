"""The primitive of shard_map, with its rules: a program that runs on a block of each operand.

The program sees some axes of a mesh as named axes, and is traced, differentiated and transposed
under them (`in_body`). On the devices of its mesh each runs the body on its blocks
(shard_map_parts.py). On one device it is mapped over these axes: operands are cut into blocks,
collectives are those of vmap, and results are put together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pyjax._config import options
from pyjax.core import axis_env
from pyjax.core.avals import Split
from pyjax.core.axis_env import in_types
from pyjax.core.check_jaxpr import program_contexts
from pyjax.core.effects import Effects, NamedAxisEffect
from pyjax.core.errors import fail
from pyjax.core.jaxpr import ClosedJaxpr, JaxprEqn, Literal
from pyjax.core.structural import as_split, broadcast, pvary, reshape
from pyjax.interpreters import ad, batching
from pyjax.interpreters.dead_code import dce_closed_jaxpr
from pyjax.interpreters.hlo import LoweringContext
from pyjax.interpreters.layouts import Known, layout_rules, layout_sources
from pyjax.interpreters.lift_constants import Lift, bind_lifted, lift_rules
from pyjax.interpreters.partial_eval import PartialTrace, partial_eval_jaxpr, trace_to_jaxpr
from pyjax.interpreters.rules import FullJvp, define_primitive
from pyjax.interpreters.tangents import UndefinedPrimal, Zero
from pyjax.interpreters.trace_cache import jaxpr_cache
from pyjax.interpreters.varying import Axes, Variation, varying_rules, vma_of
from pyjax.lax.arithmetic import div
from pyjax.lax.collectives import psum, psum_invariant_p
from pyjax.lax.common import aval_of, scalar_like
from pyjax.parallel.blocks import (
    axes_at,
    axes_of,
    block_shape,
    entry_of,
    in_mesh_order,
    parts,
    whole_shape,
)
from pyjax.parallel.shard_map_mapped import AnyMesh, Specs, mapped_program
from pyjax.parallel.shard_map_parts import is_by_parts, lower_by_parts
from pyjax.runtime.result_layouts import layout_of
from pyjax.sharding.mesh import AbstractMesh, AxisType, use_abstract_mesh
from pyjax.sharding.partition_spec import PartitionSpec
from pyjax.sharding.shardings import NamedSharding
from pyjax.sharding.splits import typed_axes
from xla_backend.hlo.instruction import Instruction

Result = TypeVar("Result")

_REPLICATED = PartitionSpec()
_NO_SUMS = (frozenset[Any](),) * 2


def in_body(
    mesh: AnyMesh, manual: Axes, check_vma: bool, function: Callable[..., Result], *args: Any
) -> Result:
    """`function(*args)` as the body of a shard_map sees the world.

    Args:
      manual: the axes that the body sees beside those that the mesh says are manual already.
    """
    inside = mesh.abstract_mesh.update_axis_types(dict.fromkeys(manual, AxisType.Manual))
    axes = [(name, mesh.shape[name]) for name in inside.manual_axes]
    with options.check_vma(check_vma), use_abstract_mesh(inside):
        return axis_env.under_mesh_axes(axes, function, *args)


def block_aval(mesh: AnyMesh, manual: Axes, check_vma: bool, spec: PartitionSpec, aval: Any) -> Any:
    """The type of a block in the body; the dimensions must be divisible."""
    shape = block_shape(mesh.shape, spec, aval.shape)
    split = aval.split
    if split is not None:
        inside = mesh.abstract_mesh.update_axis_types(dict.fromkeys(manual, AxisType.Manual))
        entries = tuple(
            entry_of(name for name in axes_at(entry) if name not in manual)
            for entry in split.entries
        )
        split = split._replace(mesh=inside, entries=entries)
        if not check_vma:
            split = Split(inside, entries)
    vma = aval.vma | in_types(mesh.shape, axes_of(spec)) if check_vma else frozenset()
    return aval.update(shape=shape, vma=vma).with_split(split)


def _whole_aval(mesh: AnyMesh, manual: Axes, spec: PartitionSpec, aval: Any) -> Any:
    """The type of a result whose blocks have this one: outside it is split as the spec says, along
    axes of type Explicit."""
    # Along an axis of a shard_map around this one; unchecked, types do not say.
    whole = aval.update(shape=whole_shape(mesh.shape, spec, aval.shape), vma=aval.vma - manual)
    explicit = typed_axes(mesh)
    if not explicit:
        return whole.with_split(None)
    inner = (None,) * aval.ndim if aval.split is None else aval.split.entries
    outer = (*spec, *(None,) * (aval.ndim - len(spec)))
    entries = tuple(
        entry_of(name for name in (*axes_at(a), *axes_at(b)) if name in explicit)
        for a, b in zip(outer, inner)
    )
    sums = spec.unreduced & explicit, spec.reduced & explicit
    return whole.with_split(Split(mesh.abstract_mesh, entries, *sums))


def _abstract_eval(
    *avals: Any,
    jaxpr: ClosedJaxpr,
    mesh: AnyMesh,
    out_specs: Specs,
    check_vma: bool,
    newly_manual_axes: Axes,
    **_: Any,
) -> list[Any]:
    return [
        _whole_aval(mesh, newly_manual_axes, spec, a) for a, spec in zip(jaxpr.out_avals, out_specs)
    ]


def _effects(*avals: Any, jaxpr: ClosedJaxpr, newly_manual_axes: Axes, **_: Any) -> Effects:
    own = {NamedAxisEffect(name) for name in newly_manual_axes}
    return jaxpr.effects - own


def _variation(operands: list[Axes], results: Sequence[Any], params: dict[str, Any]) -> Variation:
    """Operands as the body takes them. What an unchecked body returns may vary wherever anything
    does."""
    own = params["newly_manual_axes"]
    if params["check_vma"]:
        return [vma - own for vma in vma_of(params["jaxpr"].in_avals)], None
    around = axis_env.mesh_axes(params["mesh"].axis_names) - own
    return operands, [around] * len(results)


# -- forward mode ----------------------------------------------------------------------------------


def _jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    jaxpr: ClosedJaxpr,
    in_specs: Specs,
    out_specs: Specs,
    **params: Any,
) -> tuple[list[Any], list[Any]]:
    nonzero = [type(t) is not Zero for t in tangents]
    new, nonzero_out = in_body_of(params, ad.jvp_jaxpr, jaxpr, nonzero)
    outs = bind_lifted(
        shard_map_p,
        *primals,
        *[t for t in tangents if type(t) is not Zero],
        jaxpr=new,
        in_specs=(*in_specs, *_where(nonzero, in_specs)),
        out_specs=(*out_specs, *_where(nonzero_out, out_specs)),
        **params,
    )
    n = len(out_specs)
    found = iter(outs[n:])
    return outs[:n], [
        next(found) if nz else Zero(aval_of(out).to_tangent_aval())
        for nz, out in zip(nonzero_out, outs)
    ]


def in_body_of(params: dict[str, Any], function: Callable[..., Result], *args: Any) -> Result:
    """`in_body`, of an equation with these parameters."""
    own = params["newly_manual_axes"]
    return in_body(params["mesh"], own, params["check_vma"], function, *args)


def _where(flags: Sequence[bool], xs: Sequence[Any]) -> list[Any]:
    return [x for x, flag in zip(xs, flags) if flag]


# -- partial evaluation ----------------------------------------------------------------------------


class _Split:
    """A body split for partial evaluation.

    Attributes:
      known: known operands -> known results and residuals that are computed.
      staged: residuals and unknown operands -> unknown results.
      unknown_out: per result.
      residual_specs: how each residual is cut.
      sources: of each residual, ("in", i) a known operand, or ("out", i) a result of `known`.
    """

    def __init__(
        self,
        known: ClosedJaxpr,
        staged: ClosedJaxpr,
        unknown_out: list[bool],
        residual_specs: list[PartitionSpec],
        sources: list[tuple[str, int]],
    ) -> None:
        self.known = known
        self.staged = staged
        self.unknown_out = unknown_out
        self.residual_specs = residual_specs
        self.sources = sources


@jaxpr_cache
def _split(
    jaxpr: ClosedJaxpr,
    unknown_in: tuple[bool, ...],
    known_specs: Specs,
    mesh: AnyMesh,
    manual: Axes,
    check_vma: bool,
) -> _Split:
    """Residuals leave the body cut along the axes along which they vary; a scalar gets a dimension
    to be cut along."""
    known, staged, unknown_out, avals = partial_eval_jaxpr(jaxpr, unknown_in, False)
    num_known = len(unknown_out) - sum(unknown_out)
    positions = {v: i for i, v in enumerate(known.jaxpr.invars)}
    specs: list[PartitionSpec] = []
    sources: list[tuple[str, int]] = []
    computed: list[int] = []  # which residuals
    for i, (v, aval) in enumerate(zip(known.jaxpr.outvars[num_known:], avals)):
        if type(v) is not Literal and v in positions:
            specs.append(known_specs[positions[v]])
            sources.append(("in", positions[v]))
            continue
        along = in_mesh_order(mesh.shape, (aval.vma & manual) if check_vma else manual)
        sums = _NO_SUMS if aval.split is None else aval.split.manual_sums
        specs.append(
            PartitionSpec(*((along,) if along else ()), unreduced=sums[0], reduced=sums[1])
        )
        sources.append(("out", num_known + len(computed)))
        computed.append(i)
    lifted = [
        source == "out" and not aval.shape and len(spec) > 0
        for (source, _), aval, spec in zip(sources, avals, specs)
    ]

    def run_known(*args: Any) -> list[Any]:
        outs = known.eval(*args)
        residuals = [outs[num_known + i] for i in computed]
        return outs[:num_known] + [
            broadcast(r, (1,)) if lifted[i] else r for i, r in zip(computed, residuals)
        ]

    def run_staged(*args: Any) -> list[Any]:
        residuals = [reshape(r, ()) if up else r for r, up in zip(args, lifted)]
        return staged.eval(*residuals, *args[len(lifted) :])

    debug = jaxpr.jaxpr.debug_info
    residual_avals = [a.update(shape=(1,)) if up else a for a, up in zip(avals, lifted)]
    unknown_avals = staged.in_avals[len(avals) :]
    known, _ = trace_to_jaxpr(run_known, known.in_avals, debug=debug)
    staged, _ = trace_to_jaxpr(run_staged, [*residual_avals, *unknown_avals], debug=debug)
    return _Split(known, staged, unknown_out, specs, sources)


def _partial_eval(
    trace: PartialTrace,
    args: Sequence[Any],
    *,
    jaxpr: ClosedJaxpr,
    in_specs: Specs,
    out_specs: Specs,
    **params: Any,
) -> list[Any]:
    unknown_in = tuple(map(trace.is_unknown, args))
    known_in = [not u for u in unknown_in]
    known_args, known_specs = _where(known_in, args), tuple(_where(known_in, in_specs))
    mesh, manual, check_vma = params["mesh"], params["newly_manual_axes"], params["check_vma"]
    parted = in_body_of(params, _split, jaxpr, unknown_in, known_specs, mesh, manual, check_vma)
    known_out = [not u for u in parted.unknown_out]
    computed = [
        spec for spec, (source, _) in zip(parted.residual_specs, parted.sources) if source == "out"
    ]
    outs = bind_lifted(
        shard_map_p,
        *known_args,
        jaxpr=parted.known,
        in_specs=known_specs,
        out_specs=(*_where(known_out, out_specs), *computed),
        **params,
    )
    places = {"in": known_args, "out": outs}
    inputs = [places[source][i] for source, i in parted.sources] + _where(unknown_in, args)
    staged = {
        "jaxpr": parted.staged,
        "in_specs": (*parted.residual_specs, *_where(unknown_in, in_specs)),
        "out_specs": tuple(_where(parted.unknown_out, out_specs)),
        **params,
    }
    found = iter(
        trace.emit(
            shard_map_p,
            inputs,
            _abstract_eval(**staged),
            staged,
            _effects(**staged),
        )
    )
    known = iter(outs)
    return [next(found) if u else next(known) for u in parted.unknown_out]


# -- transposition ---------------------------------------------------------------------------------


def _transpose(
    cts: Sequence[Any],
    *args: Any,
    jaxpr: ClosedJaxpr,
    in_specs: Specs,
    out_specs: Specs,
    **params: Any,
) -> list[Any]:
    mesh, manual, check_vma = params["mesh"], params["newly_manual_axes"], params["check_vma"]
    linear = tuple(type(x) is UndefinedPrimal for x in args)
    nonzero = tuple(type(ct) is not Zero for ct in cts)
    new, nonzero_in = in_body_of(
        params, _transposed, jaxpr, linear, nonzero, in_specs, out_specs, mesh, manual, check_vma
    )
    given = [not lin for lin in linear]
    dense = _where(nonzero, cts)
    if not check_vma:
        # Each of the equal results along an axis that a spec does not name gets its share.
        copies = [
            math.prod(mesh.shape[name] for name in manual - axes_of(spec) - spec.unreduced)
            for spec in _where(nonzero, out_specs)
        ]
        dense = [ct if n == 1 else div(ct, scalar_like(n, ct)) for ct, n in zip(dense, copies)]
    linear_specs = _where(linear, in_specs)
    outs = iter(
        bind_lifted(
            shard_map_p,
            *_where(given, args),
            *dense,
            jaxpr=new,
            in_specs=(*_where(given, in_specs), *_of_cotangents(_where(nonzero, out_specs))),
            out_specs=_of_cotangents(_where(nonzero_in, linear_specs)),
            **params,
        )
    )
    found = iter([next(outs) if nz else None for nz in nonzero_in])
    return [next(found) if lin else None for lin in linear]


def _of_cotangents(specs: Sequence[PartitionSpec]) -> Specs:
    return tuple(spec.to_ct_spec() for spec in specs)


@jaxpr_cache
def _transposed(
    jaxpr: ClosedJaxpr,
    linear: tuple[bool, ...],
    nonzero: tuple[bool, ...],
    in_specs: Specs,
    out_specs: Specs,
    mesh: AnyMesh,
    manual: Axes,
    check_vma: bool,
) -> tuple[ClosedJaxpr, list[bool]]:
    """From other operands and cotangents to cotangents of linear operands; which of these there
    are."""
    nonzero_in: list[bool] = []
    num_given = len(linear) - sum(linear)

    def run(*args: Any) -> list[Any]:
        given, dense = iter(args[:num_given]), iter(args[num_given:])
        operands = [
            UndefinedPrimal(a) if lin else next(given) for a, lin in zip(jaxpr.in_avals, linear)
        ]
        cts = [
            _summed_to(next(dense), a.vma) if nz else Zero(a.to_cotangent_aval())
            for a, nz in zip(jaxpr.out_avals, nonzero)
        ]
        found = ad.backward_pass(jaxpr.jaxpr, jaxpr.consts, operands, cts)
        results = []
        for ct, aval, spec, lin in zip(found, jaxpr.in_avals, in_specs, linear):
            if not lin:
                continue
            nonzero_in.append(type(ct) is not Zero)
            if type(ct) is Zero:
                continue
            if check_vma:
                ct = pvary(_summed_to(ct, aval.vma), aval.vma)
                results.append(as_split(ct, aval.cotangent_split()))
            else:
                # Where the cotangent is a sum to be made outside, it is not made here.
                shared = in_mesh_order(mesh.shape, manual - axes_of(spec) - spec.reduced)
                results.append(psum(ct, shared) if shared else ct)
        return results

    avals = [a for a, lin in zip(jaxpr.in_avals, linear) if not lin]
    for aval, spec, nz in zip(jaxpr.out_avals, out_specs, nonzero):
        if nz:
            vma = aval.vma | in_types(mesh.shape, axes_of(spec)) if check_vma else frozenset()
            avals.append(aval.to_cotangent_aval().update(vma=vma))
    new, _ = trace_to_jaxpr(run, avals, debug=jaxpr.jaxpr.debug_info)
    return new, nonzero_in


def _summed_to(ct: Any, vma: Axes) -> Any:
    """A cotangent of a value that varies along these axes only."""
    axes = axis_env.in_order(aval_of(ct).vma - vma)
    return psum_invariant_p.bind1(ct, axes=axes) if axes else ct


# -- batching --------------------------------------------------------------------------------------


def _batching(
    axis_size: int,
    args: Sequence[Any],
    dims: Sequence[Any],
    *,
    jaxpr: ClosedJaxpr,
    in_specs: Specs,
    out_specs: Specs,
    **params: Any,
) -> tuple[list[Any], list[Any]]:
    """The new dimension is the first one of blocks; `spmd_axis_name` cuts it along mesh axes."""
    mesh, manual, check_vma = params["mesh"], params["newly_manual_axes"], params["check_vma"]
    axis_name, mesh_axes = batching.running_axis()
    along = tuple(name for name in mesh_axes if name in manual)
    _check_unused("in_specs", along, in_specs)
    _check_unused("out_specs", along, out_specs)
    batched = tuple(d is not None for d in dims)
    count = parts(mesh.shape, along)
    if axis_size % count:
        fail(
            ValueError,
            f"vmap of shard_map with spmd_axis_name={along}: the mapped axis of size {axis_size} "
            f"cannot be cut into {count} equal parts.",
            f"the mesh {mesh} has {count} positions along {along}.",
            "map over a multiple of that, or leave out spmd_axis_name.",
        )
    if along and NamedAxisEffect(axis_name) in jaxpr.effects:
        fail(
            NotImplementedError,
            f"a collective over {axis_name!r}, the axis of vmap, inside of shard_map is not "
            f"supported with spmd_axis_name={along}.",
            "every device has a part of the mapped axis only.",
            "leave out spmd_axis_name.",
        )
    varying = in_types(mesh.shape, frozenset(along)) if check_vma else frozenset[Any]()
    size = axis_size // count
    new, out_batched = in_body_of(
        params, _batched_body, jaxpr, size, batched, varying, axis_name, mesh_axes
    )
    moved = [x if d is None else batching.move_bdim(x, d, 0) for x, d in zip(args, dims)]
    outs = bind_lifted(
        shard_map_p,
        *moved,
        jaxpr=new,
        in_specs=_with_batch(mesh, in_specs, batched, along),
        out_specs=_with_batch(mesh, out_specs, out_batched, along),
        **params,
    )
    return outs, [0 if b else None for b in out_batched]


def _check_unused(which: str, along: tuple[Any, ...], specs: Specs) -> None:
    used = frozenset[Any]().union(*map(axes_of, specs)) & frozenset(along)
    if used and not options.disable_vmap_shmap_error.value:
        fail(
            ValueError,
            f"vmap spmd_axis_name cannot appear in shard_map {which}: {sorted(map(str, used))} "
            f"of {which}={specs}.",
            "the mapped axis is cut along this mesh axis, and so would be an axis of the array.",
            "use another mesh axis for spmd_axis_name, or leave it out; the option "
            "jax_disable_vmap_shmap_error turns this check off.",
        )


def _with_batch(
    mesh: AnyMesh, specs: Specs, batched: Sequence[bool], along: tuple[Any, ...]
) -> Specs:
    """Specs of arrays with a new first dimension, cut along mesh axes."""
    new = tuple(
        spec.update((along or None, *spec.partitions)) if b else spec
        for spec, b in zip(specs, batched)
    )
    for spec in new:
        NamedSharding(mesh, spec)  # raises if an axis cuts two dimensions
    return new


@jaxpr_cache
def _batched_body(
    jaxpr: ClosedJaxpr,
    size: int,
    batched: tuple[bool, ...],
    along: Axes,
    axis_name: Any,
    mesh_axes: tuple[Any, ...],
) -> tuple[ClosedJaxpr, list[bool]]:
    """The body with a new dimension in front of batched operands, and which results have it."""
    debug = jaxpr.jaxpr.debug_info
    out_batched: list[bool] = []

    def run(*args: Any) -> list[Any]:
        in_dims = [0 if b else None for b in batched]
        outs, dims = batching.batch_with_dims(
            jaxpr.eval, args, in_dims, size, axis_name, debug, mesh_axes
        )
        out_batched.extend(d is not None for d in dims)
        return [x if d is None else batching.bdim_at_front(x, d, size) for x, d in zip(outs, dims)]

    avals = [
        a.with_dim(0, size).update(vma=a.vma | along) if b else a
        for a, b in zip(jaxpr.in_avals, batched)
    ]
    return trace_to_jaxpr(run, avals, debug=debug)[0], out_batched


# -- running it ------------------------------------------------------------------------------------


def _lowering(ctx: LoweringContext, *operands: Instruction, **params: Any) -> list[Instruction]:
    if is_by_parts(ctx, **params):
        return lower_by_parts(ctx, *operands, **params)
    mapped = mapped_program(ctx.avals_in, params)
    names = ctx.names
    ctx.names = (*names, *(ctx.source.names if ctx.source else ()), "shard_map")
    try:
        return ctx.call(mapped, "shmap_body", *operands)
    finally:
        ctx.names = names


# -- the primitive ---------------------------------------------------------------------------------


def _dce(used_outputs: Sequence[bool], eqn: JaxprEqn) -> tuple[list[bool], JaxprEqn | None]:
    params = eqn.params
    closed, used_inputs = dce_closed_jaxpr(params["jaxpr"], tuple(used_outputs))
    if not any(used_outputs) and not closed.effects:
        return [False] * len(eqn.invars), None
    params = {
        **params,
        "jaxpr": closed,
        "in_specs": tuple(_where(used_inputs, params["in_specs"])),
        "out_specs": tuple(_where(used_outputs, params["out_specs"])),
    }
    new = eqn.replace(
        invars=_where(used_inputs, eqn.invars),
        outvars=_where(used_outputs, eqn.outvars),
        params=params,
        effects=_effects(**params),
    )
    return list(used_inputs), new


def _lift(
    operands: list[Any], params: dict[str, Any], lift: Lift
) -> tuple[list[Any], dict[str, Any]]:
    """Constants of the body are operands of which every device has all."""
    if not params["jaxpr"].consts:
        return operands, params
    program, values = lift(params["jaxpr"])
    specs = (_REPLICATED,) * len(values) + params["in_specs"]
    return [*values, *operands], {**params, "jaxpr": program, "in_specs": specs}


shard_map_p = define_primitive(
    "shard_map",
    abstract_eval=_abstract_eval,
    jvp=FullJvp(_jvp),
    transpose=_transpose,
    batching=_batching,
    lowering=_lowering,
    partial_eval=_partial_eval,
    dce=_dce,
    effects=_effects,
    multiple_results=True,
)
lift_rules[shard_map_p] = _lift
varying_rules[shard_map_p] = _variation


def _layouts(eqn: JaxprEqn, operands: Sequence[Known]) -> Sequence[Known]:
    mesh, manual = eqn.params["mesh"], eqn.params["newly_manual_axes"]
    if isinstance(mesh, AbstractMesh):
        return [None] * len(eqn.outvars)
    known = [
        layout_of(NamedSharding(mesh, spec), len(v.aval.shape))
        for spec, v in zip(eqn.params["out_specs"], eqn.outvars)
    ]
    if all(size == 1 or name in manual for name, size in mesh.shape.items()):
        return known
    # Along the other axes the compiler may cut them.
    return [None if layout is None else layout._replace(sharding=None) for layout in known]


layout_rules[shard_map_p] = _layouts
layout_sources[shard_map_p] = lambda params: params["mesh"]
program_contexts[shard_map_p] = in_body_of
