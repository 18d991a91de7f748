"""What `in_shardings` and `out_shardings` say of the arguments and results of a program."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NoReturn

from pyjax.core.avals import ShapedArray, abstractify
from pyjax.core.errors import fail, new_error
from pyjax.core.pytree import tree_unflatten
from pyjax.core.tree_util import (
    PyTreeDef,
    broadcast_prefix,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_map,
)
from pyjax.interpreters.staging import trace_to_jaxpr
from pyjax.interpreters.traced_function import TracedFunction
from pyjax.lax.out_sharding import axis_names_of
from pyjax.lax.reshard import reshard_to
from pyjax.lax.sharding_constraint import sharding_constraint_p
from pyjax.runtime.array import DeviceArray
from pyjax.runtime.placement import argument_over
from pyjax.runtime.refs import DeviceRef
from pyjax.runtime.result_layouts import Place, ProgramLayouts, Shardings, result_shardings
from pyjax.sharding.layouts import Format, Layout
from pyjax.sharding.mesh import AbstractMesh, Mesh, devices_in_context, get_abstract_mesh
from pyjax.sharding.partition_spec import PartitionSpec
from pyjax.sharding.shardings import (
    NamedSharding,
    Sharding,
    SingleDeviceSharding,
    common_device,
    context_sharding,
    resolve_device,
    says_nothing,
)
from xla_backend.runtime.client import Device

_is_none = lambda x: x is None


class JitShardings:
    """The shardings that a `jit` was given.

    Args:
      inputs, outputs: pytree prefixes of the positional arguments and of the result; leaves are
        shardings, PartitionSpecs for the mesh in context at the call, devices, or None.
    Raises:
      TypeError: other leaves.
    """

    def __init__(self, inputs: Any, outputs: Any) -> None:
        if inputs is None and outputs is None:  # nearly all: there is nothing to look at
            self.inputs = self._outputs = None
            return
        self.inputs = _without_layouts("in_shardings", inputs)
        if isinstance(self.inputs, list):
            self.inputs = tuple(self.inputs)
        self._outputs = outputs = _without_layouts("out_shardings", outputs)
        for name, tree in (("in_shardings", self.inputs), ("out_shardings", outputs)):
            for path, leaf in tree_flatten_with_path(tree)[0]:
                if not isinstance(leaf, (Device, Sharding, PartitionSpec)):
                    fail(
                        TypeError,
                        f"{name}{keystr(path)} of jit is {leaf!r}, a {type(leaf).__name__}.",
                        "its leaves say where arrays lie",
                        "write a sharding, a PartitionSpec, a device, or None where it does not "
                        "matter",
                    )

    def key(self) -> Hashable:
        """What programs depend on."""
        if self.inputs is None and self._outputs is None:
            return ()
        return tuple(
            (tuple(leaves), tree.exact_key())
            for leaves, tree in (
                tree_flatten(t, is_leaf=_is_none) for t in (self.inputs, self._outputs)
            )
        )

    def device(self) -> Device | None:
        """The device, or group of devices, that is named; None: none, or that of the mesh in
        context."""
        if self.inputs is None and self._outputs is None:
            return None
        leaves = tree_flatten((self.inputs, self._outputs))[0]
        return common_device([x for x in leaves if not _is_for_context(x)])

    def layouts(self, traced: TracedFunction, inputs: Shardings, place: Place) -> ProgramLayouts:
        """How the arguments of a program lie, which is known, and its results.

        Raises:
          ValueError: a sharding does not fit its array.
        """
        found = list(result_shardings(traced.with_constants, inputs, place.device))
        wanted = self.of_results(traced)
        if any(s is not None for s in wanted):
            found = found or [None] * len(wanted)
            found = [own if own is not None else other for own, other in zip(wanted, found)]
        return ProgramLayouts(inputs, found, place.mesh)

    def moved(self, arrays: Sequence[Any], in_tree: PyTreeDef) -> Sequence[Any]:
        """Arguments that lie on other devices than `in_shardings` say, brought there. They are cut
        alike already: nothing else is done to an array without being asked for.

        Raises:
          ValueError: one is cut otherwise.
        """
        committed = [x for x in arrays if type(x) is DeviceArray and x.committed]
        if self.inputs is None or not committed:
            return arrays
        args, kwargs = tree_unflatten(in_tree, arrays)
        if kwargs:
            return arrays  # which is refused later
        found = list(arrays)
        wanted = _spread("arguments", self.inputs, args, [x.aval for x in arrays])
        for number, (to, x) in enumerate(zip(wanted, arrays)):
            if to is None or type(x) is not DeviceArray or not x.committed:
                continue
            if isinstance(to, NamedSharding) and isinstance(to.mesh, AbstractMesh):
                continue
            if not to.is_equivalent_to(x.sharding, x.ndim):
                _check_cut_alike(to, x.sharding, number, x.aval)
                found[number] = argument_over(to, x)
        return found

    def of_arguments(self, traced: TracedFunction, arrays: Sequence[Any]) -> Shardings:
        """How the arguments of a program are to lie, or lie; None: nothing is said.

        Raises:
          ValueError: an array that is committed to a mesh is to lie otherwise.
        """
        given = self._of_arguments(traced) or [None] * len(arrays)
        found: list[Sharding | None] = []
        for number, (wanted, x) in enumerate(zip(given, arrays)):
            lies = _lies(x)
            if wanted is not None and lies is None:
                lies = _of_committed(x)
            if wanted is not None and lies is not None:
                _check_cut_alike(wanted, lies, number, abstractify(x))
                if type(x) is DeviceRef and resolve_device(wanted) is not x.spec.device:
                    _fail_to_move(wanted, x, number)
            elif wanted is not None and _sums(wanted) != _sums_of_type(abstractify(x)):
                fail(
                    NotImplementedError,
                    f"in_shardings of jit say {wanted}, a sum over mesh axes that is still to be "
                    f"made, for leaf {number} of the arguments, {abstractify(x).str_short()}.",
                    "its summands are not known",
                    "pass an array that lies so: jax.sharding.reshard(x, P(..., unreduced=...)).",
                )
            found.append(lies if wanted is None else wanted)
        return found

    def as_told(self, traced: TracedFunction) -> TracedFunction:
        """The function with its results sums over those mesh axes over which `out_shardings` want
        them to be sums that are still to be made, and no others."""
        if self._outputs is None:
            return traced
        targets = [
            to if isinstance(to, NamedSharding) and _sums_of_type(a) != to.spec.unreduced else None
            for to, a in zip(self.of_results(traced), traced.out_avals)
        ]
        if not any(targets):
            return traced
        own = traced.with_constants

        def made(*args: Any) -> list[Any]:
            outs = own.eval(*args)
            return [x if to is None else reshard_to(x, to) for to, x in zip(targets, outs)]

        closed, _ = trace_to_jaxpr(made, own.in_avals, debug=own.jaxpr.debug_info)
        return TracedFunction(closed, traced.in_tree, traced.out_tree, traced.static, traced.why)

    def constrained_arguments(self, traced: TracedFunction, args: Sequence[Any]) -> Sequence[Any]:
        """The arguments of a call inside of another program, laid out as they are to be."""
        if self.inputs is None:
            return args
        given = self._of_arguments(traced)
        if any(isinstance(s, NamedSharding) and s.mesh.explicit_axes for s in given):
            return args  # their types say how they lie
        return _constrained("in_shardings", args, given)

    def constrained_results(self, traced: TracedFunction, results: Sequence[Any]) -> Sequence[Any]:
        """The results of a call inside of another program, laid out as they are to be."""
        if self._outputs is None:
            return results
        return _constrained("out_shardings", results, self.of_results(traced))

    def _of_arguments(self, traced: TracedFunction) -> list[Sharding | None]:
        if self.inputs is None:
            return []
        avals = traced.with_constants.in_avals
        args, kwargs = tree_unflatten(traced.in_tree, avals)
        if kwargs:
            fail(
                ValueError,
                "jit does not support kwargs when in_shardings is specified, got "
                f"{', '.join(kwargs)}.",
                "in_shardings are those of the positional arguments",
                "pass them by position",
            )
        return _spread("arguments", self.inputs, args, avals)

    def of_results(self, traced: TracedFunction) -> list[Sharding | None]:
        if self._outputs is None:
            return []
        avals = traced.out_avals
        return _spread("results", self._outputs, tree_unflatten(traced.out_tree, avals), avals)


def _without_layouts(name: str, tree: Any) -> Any:
    """With the shardings of formats in their place: all arrays lie in NumPy's order.

    Raises:
      NotImplementedError: a format wants another order.
    """

    def sharding(leaf: Any) -> Any:
        if not isinstance(leaf, Format):
            return leaf
        if isinstance(leaf.layout, Layout):
            leaf.layout.check_order(name)
        return leaf.sharding

    return tree_map(sharding, tree, is_leaf=_is_none)


def _constrained(
    which: str, values: Sequence[Any], shardings: Sequence[Sharding | None]
) -> Sequence[Any]:
    """Values inside of another program, laid out as shardings over meshes say."""
    found = list(values)
    for number, sharding in enumerate(shardings):
        is_array = isinstance(abstractify(values[number]), ShapedArray)
        if is_array and isinstance(sharding, NamedSharding):
            _check_not_manual(which, sharding)
            found[number] = sharding_constraint_p.bind1(values[number], sharding=sharding)
    return found


def _check_not_manual(which: str, sharding: NamedSharding) -> None:
    manual = axis_names_of(sharding.spec) & {*get_abstract_mesh().manual_axes}
    if manual:
        fail(
            ValueError,
            f"{which} of jit say {sharding.spec} inside of shard_map, over the mesh axes "
            f"{sorted(map(str, manual))} that are manual there.",
            "along these each device has an array of its own, which the compiler does not cut",
            f"name only other axes in {which}, or leave them out",
        )


def _check_cut_alike(wanted: Sharding, lies: Sharding, number: int, aval: Any) -> None:
    """Raise ValueError for an argument of which the devices, in their order, have other parts."""
    if (
        wanted.memory_kind == lies.memory_kind
        and _sums(wanted) == _sums(lies)
        and _parts(wanted, aval) == _parts(lies, aval)
    ):
        return
    fail(
        ValueError,
        "Sharding passed to jit does not match the sharding on the respective arg. Got "
        f"sharding: {_described(wanted)}, arg sharding: {_described(lies)} for leaf {number} of "
        f"the arguments, {aval.str_short()}.",
        "an array that was put somewhere is moved to other devices, each of which takes the part "
        "of one; it is not cut anew",
        "device_put the argument to the sharding that jit was given, or leave that out",
    )


def _fail_to_move(wanted: Sharding, ref: DeviceRef, number: int) -> NoReturn:
    fail(
        ValueError,
        f"in_shardings of jit say {_described(wanted)} for leaf {number} of the arguments, "
        f"{ref.aval.str_short()}, which lies on {ref.spec.device}.",
        "a reference stays where it is, and the program would write to a copy of its array",
        "make the reference of an array that lies so, new_ref(device_put(x, sharding)), or leave "
        "its in_shardings out (None)",
    )


def _parts(sharding: Sharding, aval: Any) -> Any:
    """Which part each device has, in their order; of an array that all have, None."""
    if sharding.is_fully_replicated:
        return None
    return sharding.parts_in_order(aval.shape)


def _sums(sharding: Sharding | None) -> frozenset[Any]:
    """The mesh axes over which an array that lies so is a sum that is still to be made."""
    return sharding.spec.unreduced if isinstance(sharding, NamedSharding) else frozenset()


def _sums_of_type(aval: Any) -> frozenset[Any]:
    """The same of a type."""
    split = aval.split
    return frozenset() if split is None else frozenset(split.summed_axes)


def _described(sharding: Sharding) -> str:
    """A sharding with its devices, which meshes do not print."""
    if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, Mesh):
        return f"{sharding} over devices {[d.id for d in sharding.mesh.devices.flat]}"
    return str(sharding)


def _lies(x: Any) -> Sharding | None:
    """Of an array or reference over a mesh, or a description of one; None: nothing is said."""
    sharding = x.spec.sharding if type(x) is DeviceRef else getattr(x, "sharding", None)
    return sharding if isinstance(sharding, NamedSharding) else None


def _of_committed(x: Any) -> Sharding | None:
    """Of an array that was put on one device, or a reference there."""
    committed = type(x) is DeviceRef or (type(x) is DeviceArray and x.spec.committed)
    return SingleDeviceSharding(x.spec.device) if committed else None


def _is_for_context(sharding: Any) -> bool:
    """Whether the mesh in context says over which devices it is meant."""
    return isinstance(sharding, PartitionSpec) or (
        isinstance(sharding, NamedSharding)
        and isinstance(sharding.mesh, AbstractMesh)
        and not says_nothing(sharding)
    )


def _in_context(sharding: Any) -> Any:
    """A sharding over a mesh without devices over that in context, if it has the same axes."""
    if not _is_for_context(sharding):
        return sharding
    mesh = devices_in_context()
    if mesh.shape_tuple != sharding.mesh.shape_tuple:
        return sharding
    return NamedSharding(mesh.update(axis_types=sharding.mesh.axis_types), sharding.spec)


def _spread(
    what: str, prefix: Any, values: Any, avals: Sequence[ShapedArray]
) -> list[Sharding | None]:
    """The sharding of each array; None: nothing is said."""
    found: list[Sharding | None] = []
    for leaf, aval in zip(broadcast_prefix(prefix, values, _is_none), avals):
        sharding = _in_context(context_sharding("jit", leaf, RuntimeError))
        if isinstance(sharding, Device):
            sharding = SingleDeviceSharding(sharding)
        if isinstance(sharding, NamedSharding):
            try:
                sharding.shard_shape(aval.shape)
            except ValueError as error:
                first, *_, why, fix = str(error).splitlines()  # as `new_error` writes them
                raise new_error(
                    type(error),
                    f"One of the {what} of a jitted function is incompatible with its sharding "
                    f"annotation {sharding}: {first}",
                    why.strip(),
                    fix.strip(),
                ) from None
        found.append(sharding)
    return found
