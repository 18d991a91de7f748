"""shard_map: a function that runs on each device's part of its arguments. Checks of its specs.

The primitive that it binds is in shard_map_primitive.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from itertools import zip_longest
from typing import Any

from pyjax._config import options
from pyjax.api.call_signature import CallSignature
from pyjax.api.flat import check_callable, check_leaves, wraps
from pyjax.core import axis_env
from pyjax.core.avals import abstractify
from pyjax.core.debug_info import arg_names
from pyjax.core.errors import fail, new_error
from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.core.source_info import function_location, function_name
from pyjax.core.structural import pvary
from pyjax.core.tree_util import (
    PyTreeDef,
    broadcast_prefix,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_structure,
    tree_unflatten,
)
from pyjax.interpreters.flat_function import Static
from pyjax.interpreters.lift_constants import bind_lifted
from pyjax.interpreters.staging import trace_to_jaxpr
from pyjax.interpreters.trace_cache import jaxpr_cache
from pyjax.interpreters.traced_function import TracedFunction, trace_function
from pyjax.lax.common import aval_of
from pyjax.lax.varying import pcast
from pyjax.parallel import shard_map_faults  # noqa: F401  (the primitive has rules there)
from pyjax.parallel.blocks import axes_at, axes_of, entry_of, in_mesh_order, parts
from pyjax.parallel.shard_map_mapped import AnyMesh
from pyjax.parallel.shard_map_primitive import block_aval, in_body, shard_map_p
from pyjax.runtime.devices import default_device
from pyjax.runtime.dispatch import constant_array
from pyjax.runtime.placement import device_put
from pyjax.sharding.mesh import AbstractMesh, AxisType, Mesh, context_mesh
from pyjax.sharding.partition_spec import PartitionSpec
from pyjax.sharding.shardings import NamedSharding
from pyjax.sharding.splits import typed_axes, typed_spec


class _Infer:
    """`in_specs`: taken from the arguments."""

    def __repr__(self) -> str:
        return "Infer"


Infer = _Infer()


def shard_map(
    f: Callable[..., Any] | None = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = Infer,
    mesh: AnyMesh | None = None,
    axis_names: AbstractSet[Any] = frozenset(),
    check_vma: bool = True,
) -> Any:
    """Run `f` on each device's block of the arguments; `f` sees mesh axes as named axes.

    With a mesh of one device, or an AbstractMesh, `f` is mapped over the axes of the mesh, and all
    blocks are computed on one device; so are those of a function that sees some axes only.

    With `check_vma`, types in `f` say along which axes values vary (`jax.typeof(x).vma`): a block
    along the axes that its spec names, what `lax.axis_index` gives along its axis, what `lax.psum`
    gives not along the axis that it sums over. Operations cast operands that vary along fewer axes
    than others (`lax.pcast`); carries of loops are not cast.

    Args:
      in_specs, out_specs: pytree prefixes of PartitionSpec: how arguments are cut into blocks, and
        results put together. A spec that does not name an axis says that all devices along it have
        the same. An argument whose spec is None is not an array. Without `in_specs`, arguments are
        cut as they lie (axes of type Explicit only).
      mesh: default the mesh in context.
      axis_names: the axes that `f` sees; default all. Others are as they were outside.
      check_vma: raise if an output may differ along an axis that its spec does not name; sum
        cotangents only where types say so.
    Returns:
      The mapped function, or a decorator if `f` is left out.
    Raises:
      ValueError: no mesh, or not that in context; a spec names an axis that `f` does not see, has
        more entries than its array dimensions, or cuts a dimension into parts that are not equal;
        an output may differ along an axis that its spec does not name.
      TypeError: specs are no PartitionSpecs.

    >>> from pyjax import P, lax, numpy as jnp
    >>> from pyjax.sharding import AbstractMesh
    >>> g = shard_map(lambda x: x - lax.pmean(x.sum(), "i"), mesh=AbstractMesh((2,), ("i",)),
    ...               in_specs=P("i"), out_specs=P("i"))
    >>> g(jnp.arange(4.0)).tolist()
    [-3.0, -2.0, -1.0, 0.0]
    """
    if f is None:
        return functools.partial(
            shard_map,
            out_specs=out_specs,
            in_specs=in_specs,
            mesh=mesh,
            axis_names=axis_names,
            check_vma=check_vma,
        )
    function = f
    check_callable(function)
    static = [i for i, s in enumerate(in_specs) if s is None] if _is_sequence(in_specs) else []
    signature = CallSignature(function, static, None)

    @wraps(function)
    def mapped(*args: Any) -> Any:
        where, axes = _mesh_and_axes(mesh, axis_names)
        call = _Call(function, where, axes, check_vma)
        call.check_are_specs("in_specs", in_specs)
        call.check_are_specs("out_specs", out_specs)
        specs = in_specs
        if static:
            specs = type(in_specs)(s for s in in_specs if s is not None)
        args, _, fixed = signature.split(args, {})
        return call(args, specs, out_specs, fixed, signature.static_key_if_any(fixed))

    return mapped


def _is_sequence(x: Any) -> bool:
    return type(x) in (tuple, list)


def _mesh_and_axes(
    mesh: AnyMesh | None, axis_names: AbstractSet[Any]
) -> tuple[AnyMesh, frozenset[Any]]:
    """The mesh, as it is in context, and the axes that become manual."""
    around = context_mesh()
    if mesh is None:
        if around is None or around.empty:
            fail(
                ValueError,
                "shard_map needs a mesh.",
                "neither an argument nor the context says over which devices to map.",
                "pass mesh=..., or call it inside `with set_mesh(mesh):`.",
            )
        mesh = around
    elif not isinstance(mesh, (Mesh, AbstractMesh)):
        raise new_error(TypeError, f"shard_map: mesh must be a Mesh or AbstractMesh, got {mesh!r}")
    elif around is not None and not around.empty:
        if around.shape_tuple != mesh.shape_tuple or (
            not around.manual_axes and around.axis_types != mesh.axis_types
        ):
            fail(
                ValueError,
                f"shard_map: the mesh in context, {around}, is not the mesh that is passed, "
                f"{mesh}.",
                "named axes and specs of one would be taken for those of the other.",
                "leave out mesh=..., or call it outside of the other mesh's context.",
            )
        mesh = around if around.manual_axes else mesh
    if mesh.empty:
        fail(ValueError, f"shard_map needs a mesh with axes, got {mesh}.")
    if not isinstance(axis_names, AbstractSet):
        raise new_error(TypeError, f"shard_map: axis_names must be a set, got {axis_names!r}")
    unknown = axis_names - set(mesh.axis_names)
    if unknown:
        fail(
            ValueError,
            f"shard_map: axis_names {set(unknown)} are not axes of the mesh, which has "
            f"{mesh.axis_names}.",
            fix="name axes of the mesh, or leave axis_names out for all of them.",
        )
    wanted = frozenset(axis_names) or frozenset(mesh.axis_names)
    return mesh, wanted - set(mesh.manual_axes)


class _Call:
    """One call of a mapped function."""

    def __init__(
        self, fun: Callable[..., Any], mesh: AnyMesh, manual: frozenset[Any], check_vma: bool
    ) -> None:
        self._fun = fun
        self._mesh = mesh
        self._manual = manual
        self._check_vma = check_vma
        self._name = f"shard_map of {function_name(fun)}"

    def __call__(
        self, args: tuple[Any, ...], in_specs: Any, out_specs: Any, static: Static, key: Any
    ) -> Any:
        mesh, manual, check_vma = self._mesh, self._manual, self._check_vma
        leaves, in_tree = tree_flatten((args, {}))
        check_leaves("shard_map", leaves, (args, {}))
        avals = [abstractify(x) for x in leaves]
        if in_specs is Infer:
            specs = self._inferred(leaves)
        else:
            specs = self._spread("in_specs", in_specs, args)
            names = arg_names(self._fun, in_tree, [i for i, _ in static if isinstance(i, int)])
            self._check_fits("in_specs", specs, avals, names)
            self._check_divides(specs, avals, names)
            self._check_lie(specs, leaves, avals, names)
        blocks = [block_aval(mesh, manual, check_vma, s, a) for s, a in zip(specs, avals)]
        traced: TracedFunction = in_body(
            mesh, manual, check_vma, self._trace, in_tree, blocks, static, key
        )
        skeleton = tree_unflatten(traced.out_tree, traced.out_avals)
        out = self._spread("out_specs", out_specs, skeleton)
        paths = [keystr(p) for p, _ in tree_flatten_with_path(skeleton)[0]]
        self._check_fits("out_specs", out, traced.out_avals, [f"the result{p}" for p in paths])
        body = traced.closed
        if check_vma:
            self._check_replicated(out, traced.out_avals, paths)
            self._check_sums_of_results(out, traced.out_avals, paths)
            body = in_body(mesh, manual, True, _of_results, body, tuple(out))
        consts = traced.operands(constant_array)
        operands = [*consts, *leaves]
        params = {
            "mesh": mesh,
            "in_specs": (PartitionSpec(),) * len(consts) + tuple(specs),
            "out_specs": tuple(out),
            "check_vma": check_vma,
            "newly_manual_axes": manual,
            "jaxpr": body,
        }
        return tree_unflatten(traced.out_tree, _bind(mesh, operands, params))

    def _trace(
        self, in_tree: PyTreeDef, blocks: Sequence[Any], static: Static, key: Any
    ) -> TracedFunction:
        return trace_function("shard_map", self._fun, in_tree, blocks, static, key, afresh=True)

    # -- specs -------------------------------------------------------------------------------------

    def check_are_specs(self, which: str, specs: Any) -> None:
        """All leaves are PartitionSpecs that name axes that the function sees."""
        if specs is Infer:
            return
        top = _is_sequence(specs)
        for path, spec in tree_flatten_with_path(specs, is_leaf=lambda s: s is None)[0]:
            place = f"{which}{keystr(path)}"
            if spec is None and (which == "out_specs" or (top and len(path) == 1)):
                continue  # of a result that is None, or an argument that is not an array
            if not isinstance(spec, PartitionSpec):
                fail(
                    TypeError,
                    f"{self._name}: {place} must be a PartitionSpec, got {spec!r}.",
                    f"{which} says how each array is cut along the axes of the mesh.",
                    "write P() for an array of which every device has all, P('x') for one whose "
                    "first dimension is cut along mesh axis 'x'.",
                )
            if spec.unreduced or spec.reduced:
                self._check_sums(place, spec)
            unknown = in_spec_order(spec, axes_of(spec) - self._manual)
            if unknown:
                fail(
                    ValueError,
                    f"{self._name}: {place} is {spec}, which names {', '.join(unknown)}, but the "
                    f"function sees the mesh axes {self._axes()} only.",
                    f"the mesh is {self._mesh}.",
                    "name these axes in specs, or others in axis_names or the mesh.",
                )
            NamedSharding(self._mesh, spec)  # raises if an axis cuts two dimensions

    def _check_sums(self, place: str, spec: PartitionSpec) -> None:
        """Types outside say it of axes of type Explicit only, and of the axes of a shard_map all
        or nothing."""
        if self._manual != frozenset(self._mesh.axis_names):
            fail(
                NotImplementedError,
                f"{self._name}: {place} is {spec}, and the function sees the mesh axes "
                f"{self._axes()} of {self._mesh.axis_names} only. unreduced and reduced can only "
                "be passed when it sees all axes.",
                "along the other axes the compiler splits what the function computes.",
                "leave out axis_names, or sum inside of the function: lax.psum(x, axis_name).",
            )
        named = spec.unreduced | spec.reduced
        if others := named.difference(self._mesh.explicit_axes):
            kind = "unreduced" if spec.unreduced else "reduced"
            fail(
                ValueError,
                f"{self._name}: {place} is {spec}; {kind} can only be used when the mesh passed to "
                "shard_map contains axis names all of type `Explicit`.",
                f"{', '.join(sorted(map(repr, others)))} of {self._mesh} is not: types do not say "
                "of it that a sum is still to be made.",
                "make the mesh with axis_types=AxisType.Explicit, or sum inside of the function: "
                "lax.psum(x, axis_name).",
            )

    def _axes(self) -> tuple[Any, ...]:
        return in_mesh_order(self._mesh.shape, self._manual)

    def _inferred(self, leaves: Sequence[Any]) -> list[PartitionSpec]:
        types = dict(zip(self._mesh.axis_names, self._mesh.axis_types))
        others = [n for n in self._axes() if types[n] is not AxisType.Explicit]
        if others:
            fail(
                TypeError,
                f"{self._name} needs in_specs: mesh axes {others} are not of type Explicit.",
                "only along explicit axes arguments say how they are cut.",
                "pass in_specs=..., a PartitionSpec for each argument.",
            )
        return [self._spec_of(x) for x in leaves]

    def _spec_of(self, x: Any) -> PartitionSpec:
        split = aval_of(x).split
        if split is None or split.mesh.shape_tuple != self._mesh.shape_tuple:
            return PartitionSpec()
        own = (entry_of(n for n in axes_at(e) if n in self._manual) for e in split.entries)
        sums = split.unreduced & self._manual, split.reduced & self._manual
        return PartitionSpec(*own, unreduced=sums[0], reduced=sums[1])

    def _spread(self, which: str, specs: Any, values: Any) -> list[PartitionSpec]:
        try:
            return broadcast_prefix(specs, values)
        except ValueError as error:
            fail(
                ValueError,
                f"{self._name}: {which} is no prefix of the "
                f"{'arguments' if which == 'in_specs' else 'result'}: {error}",
                f"{which} has structure {tree_structure(specs)}, and these are "
                f"{tree_structure(values)}.",
                "give one spec for each array, or for a subtree whose arrays are cut alike.",
            )

    def _check_fits(
        self, which: str, specs: Sequence[Any], avals: Sequence[Any], names: Sequence[str]
    ) -> None:
        for spec, aval, name in zip(specs, avals, names):
            if len(spec) > len(aval.shape):
                fail(
                    ValueError,
                    f"{self._name}: {which} has {spec} for {name} of type {aval.str_short()}: "
                    f"{len(spec)} entries, but the array has rank {len(aval.shape)}.",
                    "an entry says along which mesh axes one dimension is cut.",
                    "shorten the spec, or give the array a dimension"
                    + (
                        " (x[None] makes a scalar an array of one element)."
                        if not aval.shape
                        else "."
                    ),
                )

    def _check_divides(
        self, specs: Sequence[Any], avals: Sequence[Any], names: Sequence[str]
    ) -> None:
        sizes = self._mesh.shape
        for spec, aval, name in zip(specs, avals, names):
            for axis, (entry, size) in enumerate(zip(spec, aval.shape)):
                count = parts(sizes, entry)
                if size % count:
                    along = " and ".join(f"{n!r} (of size {sizes[n]})" for n in axes_at(entry))
                    fail(
                        ValueError,
                        f"{self._name}: argument {name} of type {aval.str_short()} is not evenly "
                        f"divisible: in_specs has {spec}, which cuts dimension {axis} along mesh "
                        f"axis {along}, and {count} does not divide {size}.",
                        f"all devices run one program, on blocks of one shape; the mesh is "
                        f"{self._mesh}.",
                        "pad the array, use another mesh, or do not cut this dimension.",
                    )

    def _check_lie(
        self,
        specs: Sequence[Any],
        leaves: Sequence[Any],
        avals: Sequence[Any],
        names: Sequence[str],
    ) -> None:
        """Arrays are not moved where all axes are explicit, and the function sees all of them.

        Where it sees some (`axis_names`, `smap`), or some are automatic, they are moved, as by JAX.
        """
        explicit = typed_axes(self._mesh)
        if not explicit or explicit - self._manual or AxisType.Auto in self._mesh.axis_types:
            return
        for spec, x, aval, name in zip(specs, leaves, avals, names):
            lies = self._spec_of(x)
            asked = typed_spec(self._mesh, spec)
            as_asked = (asked.unreduced, asked.reduced) == (lies.unreduced, lies.reduced) and all(
                [n for n in axes_at(wanted) if n in explicit]
                == [n for n in axes_at(found) if n in explicit]
                for wanted, found in zip_longest(asked.partitions, lies.partitions)
            )
            if not as_asked:
                fail(
                    ValueError,
                    f"{self._name}: in_specs has {spec} for {name} of type {aval.str_short()}, "
                    f"which lies as {lies}.",
                    f"the mesh is {self._mesh}; along explicit axes arrays are not moved "
                    "unless the program says so.",
                    "leave out in_specs, or call jax.reshard on the argument before; or make "
                    "the mesh with axis_types=AxisType.Auto.",
                )

    def _check_replicated(
        self, specs: Sequence[Any], avals: Sequence[Any], paths: Sequence[str]
    ) -> None:
        for spec, aval, path in zip(specs, avals, paths):
            said = axes_of(spec) | spec.unreduced
            differs = in_mesh_order(self._mesh.shape, aval.vma & self._manual - said)
            if differs:
                along = ", ".join(map(repr, differs))
                fail(
                    ValueError,
                    f"{self._name}: out_specs has {spec} for the result{path}, which says that it "
                    f"is the same along mesh axis {along}; but it cannot be inferred that it is: "
                    f"its type is {aval.str_short()}.",
                    f"the function is {function_location(self._fun)}; the mesh is {self._mesh}.",
                    "name the axis in the spec, make the result the same on all devices "
                    "(lax.psum, lax.pmean, lax.all_gather(..., to='invarying')), or, if it is, "
                    "pass check_vma=False to shard_map.",
                )

    def _check_sums_of_results(
        self, specs: Sequence[Any], avals: Sequence[Any], paths: Sequence[str]
    ) -> None:
        """Results are sums still to be made, or reduced, along the axes that specs name so."""
        for said, aval, path in zip(specs, avals, paths):
            spec = typed_spec(self._mesh, said)
            found = (_NONE, _NONE) if aval.split is None else aval.split.manual_sums
            # What varies is made a summand.
            found = (found[0] | (spec.unreduced & aval.vma), found[1])
            for kind, named, own in zip(
                ("unreduced", "reduced"), (spec.unreduced, spec.reduced), found
            ):
                if named == own:
                    continue
                how = f"name the {kind} axes of the type in the spec: P(..., {kind}={{...}})"
                if not own:
                    how = "leave them out of the spec"
                    if kind == "reduced":
                        how += ", or cast the result: lax.pcast(x, axis_name, to='reduced')"
                elif kind == "unreduced":
                    how += ", or make the sum: lax.psum(x, axis_name)"
                fail(
                    ValueError,
                    f"{self._name}: out_specs should be equal to the {kind} present on the "
                    f"result. out_specs has {said} for the result{path} of type "
                    f"{aval.str_short()}.",
                    f"the function is {function_location(self._fun)}; the mesh is {self._mesh}.",
                    f"{how}.",
                )


_NONE = frozenset[Any]()


def in_spec_order(spec: PartitionSpec, axes: frozenset[Any]) -> list[str]:
    return [repr(name) for entry in spec.partitions for name in axes_at(entry) if name in axes]


@jaxpr_cache
def _of_results(body: ClosedJaxpr, specs: tuple[PartitionSpec, ...]) -> ClosedJaxpr:
    """The program with results of the types of those that vary along the axes of their specs at
    least; what varies along an axis that a spec calls unreduced is one of the summands."""

    def typed(x: Any, spec: PartitionSpec) -> Any:
        x = pvary(x, axes_of(spec))
        aval = aval_of(x)
        own = _NONE if aval.split is None else aval.split.unreduced
        summed = axis_env.in_order(axis_env.mesh_axes(spec.unreduced - own))
        return pcast(x, summed, to="unreduced") if summed else x

    def run(*args: Any) -> list[Any]:
        return [typed(x, spec) for x, spec in zip(body.eval(*args), specs)]

    varying = [axis_env.mesh_axes(axes_of(spec)) for spec in specs]
    summed = any(axis_env.mesh_axes(spec.unreduced) for spec in specs)
    if not summed and all(a.vma >= axes for a, axes in zip(body.out_avals, varying)):
        return body
    return trace_to_jaxpr(run, body.in_avals, debug=body.jaxpr.debug_info)[0]


def _bind(mesh: AnyMesh, operands: list[Any], params: dict[str, Any]) -> list[Any]:
    """Bind the primitive, where a mesh has one device on that."""
    if isinstance(mesh, AbstractMesh) or mesh.devices.size > 1:
        return bind_lifted(shard_map_p, *operands, **params)
    device = mesh.devices.item()
    if device is default_device():
        return bind_lifted(shard_map_p, *operands, **params)
    with options.default_device(device):
        return bind_lifted(shard_map_p, *device_put(operands, device), **params)
