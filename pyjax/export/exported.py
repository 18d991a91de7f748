"""Exported: a program that leaves the process, and everything that is known of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pyjax._config import options
from pyjax.core.avals import abstractify
from pyjax.core.errors import fail
from pyjax.core.symbolic_dims import Scope
from pyjax.core.traceback_filter import api_boundary
from pyjax.core.tree_util import PyTreeDef, tree_flatten, tree_unflatten
from pyjax.export.avals import (
    aval_from_json,
    aval_to_json,
    sharding_from_json,
    sharding_to_json,
)
from pyjax.export.call import (
    argument_names,
    call_flat,
    check_structure,
    check_types,
    with_derivative,
)
from pyjax.export.container import (
    NEWEST_FORMAT,
    OLDEST_FORMAT,
    Record,
    malformed,
    read_records,
    write_records,
)
from pyjax.export.over_devices import on_mesh
from pyjax.export.safety import DisabledSafetyCheck, checked_module, shapes_of
from pyjax.export.shape_specs import SymbolicScope
from pyjax.export.sizes import fill_in, scope_of, solve, with_sizes
from pyjax.export.trees import tree_from_json, tree_to_json
from pyjax.export.versions import checked_version
from pyjax.sharding.splits import sharding_of
from xla_backend.hlo.module import HloModule
from xla_backend.process.bounded_cache import BoundedCache, Budget
from xla_backend.process.lazy import lazy
from xla_backend.process.light_dataclasses import dataclass

# Programs made of ones with symbolic sizes, of all of them together.
_INSTANCES = Budget("exported programs at sizes", entries=512, nbytes=64 << 20)


@dataclass(frozen=True, eq=False, repr=False)
class Exported:
    """A function as a StableHLO program with its calling convention; from `export`, `deserialize`.

    The program takes the flat arguments that `module_kept_var_idx` lists and returns the flat
    results. Random keys are passed as their words, float0 arrays not at all. Symbolic sizes stand
    in its text between « and »; a call finds them from the shapes of its arguments, and runs the
    program with the numbers in their places.

    Attributes:
      fun_name: of the function.
      in_tree: structure of (args, kwargs); in_avals: types of the leaves.
      out_tree, out_avals: the same of the result.
      in_shardings_hlo, out_shardings_hlo: None for each leaf, as in JAX: shardings have names.
      nr_devices: how many run the program together; one that was exported for one device runs on
        any number of them.
      platforms: on which the program may run.
      ordered_effects, unordered_effects: none; programs with effects are not exported.
      disabled_safety_checks: what `export` was told not to check.
      mlir_module_serialized: the StableHLO text, in UTF-8.
      calling_convention_version: how arguments and results are passed.
      module_kept_var_idx: which leaves of the arguments the program takes.
      uses_global_constants: whether it has arguments besides those; False.

    >>> exported = export(pyjax.jit(lambda x: {"y": 2 * x}))(jnp.ones(3))
    >>> exported.in_avals, exported.out_tree
    ((ShapedArray(float32[3]),), PyTreeDef({'y': *}))
    >>> exported.call(jnp.arange(3.0))["y"].tolist()
    [0.0, 2.0, 4.0]
    """

    fun_name: str
    in_tree: PyTreeDef
    in_avals: tuple[Any, ...]
    out_tree: PyTreeDef
    out_avals: tuple[Any, ...]
    _has_named_shardings: bool
    _in_named_shardings: tuple[Any, ...]
    _out_named_shardings: tuple[Any, ...]
    in_shardings_hlo: tuple[Any, ...]
    out_shardings_hlo: tuple[Any, ...]
    nr_devices: int
    platforms: tuple[str, ...]
    ordered_effects: tuple[Any, ...]
    unordered_effects: tuple[Any, ...]
    disabled_safety_checks: Sequence[DisabledSafetyCheck]
    mlir_module_serialized: bytes
    calling_convention_version: int
    module_kept_var_idx: tuple[int, ...]
    uses_global_constants: bool
    _get_vjp: Callable[[Exported], Exported] | None

    def __repr__(self) -> str:
        return f"Exported(fun_name={self.fun_name}, ...)"

    def mlir_module(self, serialized: bool = True) -> str:
        """The StableHLO text."""
        del serialized
        return self.mlir_module_serialized.decode()

    def in_shardings_jax(self, mesh: Any) -> Sequence[Any]:
        """Shardings of the arguments over a mesh, as the function was exported for them; None where
        nothing was said.

        Raises:
          ValueError: the mesh has other axes.
        """
        return _shardings_over(mesh, self.in_avals, self._in_named_shardings)

    def out_shardings_jax(self, mesh: Any) -> Sequence[Any]:
        """Shardings of the results over a mesh; None where nothing was said.

        Raises:
          ValueError: the mesh has other axes.
        """
        return _shardings_over(mesh, self.out_avals, self._out_named_shardings)

    # -- calling -----------------------------------------------------------------------------------

    @api_boundary
    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program, on arrays or under jit, vmap and (with `has_vjp`) reverse mode.

        Raises:
          ValueError: arguments of another structure, shape or dtype than those that the function
            was exported for, or another platform; under reverse mode, there is no derivative.
        """
        leaves, in_tree = tree_flatten((args, kwargs))
        check_structure(self, args, kwargs, in_tree)
        exported = self._for(leaves)
        check_types(exported, leaves)
        return tree_unflatten(self.out_tree, call_flat(exported, leaves))

    # -- symbolic sizes ----------------------------------------------------------------------------

    @lazy
    def _scope(self) -> Scope | None:
        """Of symbolic sizes; None if all are numbers."""
        return scope_of(self.in_avals)

    @lazy
    def _instances(self) -> BoundedCache[Any, Exported]:
        return BoundedCache(_INSTANCES, lambda made: len(made.mlir_module_serialized))

    def _for(self, leaves: Sequence[Any]) -> Exported:
        """The program for arguments of these sizes."""
        if self._scope is None:
            return self
        shapes = [abstractify(x).shape for x in leaves]
        return self._at(solve(self.fun_name, self.in_avals, shapes, argument_names(self.in_tree)))

    def _at(self, sizes: dict[str, int]) -> Exported:
        """The program with its variables replaced by numbers."""
        key = tuple(sorted(sizes.items()))
        return self._instances.make(key, lambda: self._made(sizes))

    def _made(self, sizes: dict[str, int]) -> Exported:
        assert self._scope is not None
        return replace(
            self,
            in_avals=tuple([with_sizes(a, sizes) for a in self.in_avals]),
            out_avals=tuple([with_sizes(a, sizes) for a in self.out_avals]),
            mlir_module_serialized=fill_in(self.mlir_module(), self._scope, sizes).encode(),
            _get_vjp=(lambda _: self.vjp()._at(sizes)) if self.has_vjp() else None,
        )

    # -- the parts of a call -----------------------------------------------------------------------

    @lazy
    def differentiable(self) -> Any:
        """The flat function with its derivative."""
        return with_derivative(self)

    @property
    def any_platform(self) -> bool:
        """Whether calls run on platforms that the program was not exported for."""
        return DisabledSafetyCheck.platform() in self.disabled_safety_checks

    @property
    def out_named_shardings(self) -> tuple[Any, ...]:
        """How the results lie, over a mesh without devices; None: nothing is said."""
        return self._out_named_shardings

    @lazy
    def _module(self) -> HloModule:
        kept = [self.in_avals[i] for i in self.module_kept_var_idx]
        return checked_module(
            self.mlir_module(),
            self.fun_name,
            shapes_of(kept),
            shapes_of(self.out_avals),
            self.disabled_safety_checks,
        )

    def hlo_module(self) -> HloModule:
        """The program as HLO, checked, if all its sizes are numbers; it belongs to this object."""
        return self._module

    def has_vjp(self) -> bool:
        """Whether the derivative is known."""
        return self._get_vjp is not None

    @lazy
    def _vjp(self) -> Exported:
        if self._get_vjp is None:
            fail(
                ValueError,
                f"no derivative (VJP) of {self.fun_name} is available",
                "it was serialized without",
                "serialize it with vjp_order=1, or as many as derivatives will be taken",
            )
        return self._get_vjp(self)

    def vjp(self) -> Exported:
        """The derivative for reverse mode: a function of the flat arguments and the cotangents of
        the flat results, that returns the cotangents of the arguments.

        Raises:
          ValueError: it is not known.
        """
        return self._vjp

    # -- serialising -------------------------------------------------------------------------------

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """The program as bytes, for `deserialize`.

        They say their format, and end with a checksum. Readers of the oldest format understand
        them, unless `jax_export_ignore_forward_compatibility` is on: then they are compressed.

        Args:
          vjp_order: how many derivatives go with it.
        Raises:
          ValueError: a derivative is not known, or a type in a structure is not registered for
            serialization.
        """
        records = [_to_record(self)]
        last = self
        for _ in range(vjp_order):
            last = last.vjp()
            records.append(_to_record(last))
        newest = options.export_ignore_forward_compatibility.value
        return write_records(records, NEWEST_FORMAT if newest else OLDEST_FORMAT)


def _to_record(exported: Exported) -> Record:
    header = {
        "fun_name": exported.fun_name,
        "in_tree": tree_to_json(exported.in_tree),
        "symbolic_constraints": list(exported._scope.constraints) if exported._scope else [],
        "in_avals": [aval_to_json(a) for a in exported.in_avals],
        "out_tree": tree_to_json(exported.out_tree),
        "out_avals": [aval_to_json(a) for a in exported.out_avals],
        "platforms": list(exported.platforms),
        "disabled_safety_checks": [str(c) for c in exported.disabled_safety_checks],
        "calling_convention_version": exported.calling_convention_version,
        "module_kept_var_idx": list(exported.module_kept_var_idx),
    }
    if exported.nr_devices > 1:  # readers of older versions know of one device only
        header["nr_devices"] = exported.nr_devices
        for name, shardings in (
            ("in_shardings", exported._in_named_shardings),
            ("out_shardings", exported._out_named_shardings),
        ):
            header[name] = [sharding_to_json(s) for s in shardings]
    return header, exported.mlir_module()


def deserialize(blob: bytes | bytearray) -> Exported:
    """The program that `Exported.serialize` wrote.

    Everything is checked before anything of it is compiled: the checksum, the version, that the
    module is a valid program which takes and returns what is recorded, and that it calls nothing
    but routines of the library.

    Raises:
      TypeError: `blob` is no bytes.
      ValueError: the bytes are damaged, of a newer format or an unsupported calling convention; a
        type of users in it is not registered.

    >>> import pyjax
    >>> import pyjax.numpy as jnp
    >>> blob = pyjax.export.export(pyjax.jit(jnp.sin))(jnp.zeros(2)).serialize()
    >>> deserialize(blob).call(jnp.zeros(2)).tolist()
    [0.0, 0.0]
    """
    records = read_records(blob)
    following: Exported | None = None
    constraints = records[0][0].get("symbolic_constraints")
    if type(constraints) is not list or any(type(c) is not str for c in constraints):
        malformed(f"it has no valid 'symbolic_constraints': {constraints!r:.80}")
    scope = SymbolicScope(constraints)
    for header, text in reversed(records):
        following = _from_record(header, text, following, scope)
    assert following is not None
    return following


def _from_record(
    header: dict[str, Any], text: str, derivative: Exported | None, scope: SymbolicScope
) -> Exported:
    def field(name: str, kind: type, of: type | None = None) -> Any:
        value: Any = header.get(name)
        items = value if of and type(value) is list else []
        if type(value) is not kind or any(type(v) is not of for v in items):
            malformed(f"it has no valid {name!r}: {value!r:.80}")
        return value

    version = checked_version(
        field("calling_convention_version", int),
        "the serialized program",
        "update pyjax here, or serialize with a version that this one supports, by the option "
        "jax_export_calling_convention_version",
    )
    in_tree, out_tree = (tree_from_json(header.get(name)) for name in ("in_tree", "out_tree"))
    in_avals, out_avals = (
        tuple([aval_from_json(a, scope) for a in field(name, list)])
        for name in ("in_avals", "out_avals")
    )
    kept = tuple(field("module_kept_var_idx", list, int))
    if header.get("symbolic_constraints") != list(scope.constraints):
        malformed("its records have different constraints")
    if in_tree.num_leaves != len(in_avals) or out_tree.num_leaves != len(out_avals):
        malformed("it has more or fewer types than leaves")
    if list(kept) != sorted(set(kept)) or any(not 0 <= i < len(in_avals) for i in kept):
        malformed(f"it has no valid 'module_kept_var_idx': {kept}")
    devices = 1
    shardings: list[tuple[Any, ...]] = [(), ()]
    if "nr_devices" in header:
        devices = field("nr_devices", int)
        shardings = [
            tuple([None if s is None else sharding_from_json(s) for s in field(name, list)])
            for name in ("in_shardings", "out_shardings")
        ]
        if [len(s) for s in shardings] != [len(in_avals), len(out_avals)] or devices < 2:
            malformed("it does not say how its arrays lie")
    exported = Exported(
        fun_name=field("fun_name", str),
        in_tree=in_tree,
        in_avals=in_avals,
        out_tree=out_tree,
        out_avals=out_avals,
        platforms=tuple(field("platforms", list, str)),
        disabled_safety_checks=tuple(
            DisabledSafetyCheck(c) for c in field("disabled_safety_checks", list, str)
        ),
        mlir_module_serialized=text.encode(),
        calling_convention_version=version,
        module_kept_var_idx=kept,
        _get_vjp=None if derivative is None else lambda _: derivative,
        **without_effects(in_avals, out_avals, devices, *shardings),
    )
    if exported._scope is None:
        exported.hlo_module()  # the program for other sizes is checked when they are known
    if derivative is not None and derivative.in_avals[: len(in_avals)] != in_avals:
        malformed("its derivative is that of another program")
    return exported


def _shardings_over(mesh: Any, avals: Sequence[Any], named: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(
        [
            on_mesh(mesh, s if a.split is None else sharding_of(a.split))
            for a, s in zip(avals, named)
        ]
    )


def without_effects(
    in_avals: Sequence[Any],
    out_avals: Sequence[Any],
    devices: int,
    in_shardings: Sequence[Any],
    out_shardings: Sequence[Any],
) -> dict[str, Any]:
    """The fields of Exported that follow from types and from how arrays lie, in programs without
    effects."""
    inputs, outputs = len(in_avals), len(out_avals)
    meshes = [a.split.mesh for a in (*in_avals, *out_avals) if a.split is not None]
    return {
        "_has_named_shardings": True,
        "_in_named_shardings": tuple(in_shardings) or (None,) * inputs,
        "_out_named_shardings": tuple(out_shardings) or (None,) * outputs,
        "in_shardings_hlo": (None,) * inputs,
        "out_shardings_hlo": (None,) * outputs,
        "nr_devices": meshes[0].size if meshes else devices,
        "ordered_effects": (),
        "unordered_effects": (),
        "uses_global_constants": False,
    }
