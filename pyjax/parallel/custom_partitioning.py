"""Functions that say themselves how they are partitioned over devices."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyjax.api.call_signature import CallSignature
from pyjax.api.eval_shape import ShapeDtypeStruct
from pyjax.core.avals import ShapedArray, abstractify
from pyjax.core.errors import UnexpectedTracerError, fail
from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.core.primitive import Primitive
from pyjax.core.source_info import function_name
from pyjax.core.trace import Tracer
from pyjax.core.tree_util import (
    PyTreeDef,
    tree_flatten,
    tree_map,
    tree_structure,
    tree_unflatten,
)
from pyjax.interpreters.hlo import LoweringContext, ModuleContext
from pyjax.interpreters.manual_mesh import ManualMesh
from pyjax.interpreters.partial_eval import trace_to_jaxpr
from pyjax.interpreters.rules import Unsupported, define_primitive
from pyjax.interpreters.traced_function import trace_function
from pyjax.parallel.shard_map_primitive import in_body
from pyjax.parallel.sharding_rules import SdyShardingRule, parse_rule
from pyjax.sharding.hlo_shardings import (
    hlo_mesh,
    hlo_sharding,
    mesh_of_devices,
    named_sharding,
)
from pyjax.sharding.mesh import Mesh
from pyjax.sharding.partition_spec import PartitionSpec
from pyjax.sharding.shardings import NamedSharding
from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.builder import HloBuilder
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.sharding import Sharding
from xla_backend.spmd.custom import TARGET, Mappings, PartitionedCall, PartitioningRule

_numbers = itertools.count()


class custom_partitioning:
    """A function for which `def_partition` says how devices compute it on parts of its arguments.

    Args:
      fun: of pytrees of arrays.
      static_argnums: positions of arguments that are part of the program; the callbacks of
        `def_partition` get them first.
    Where one device runs it, and inside of shard_map, it is `fun`. It has no derivative and no
    batching rule of its own: wrap it in custom_vjp or custom_vmap.

    >>> @custom_partitioning
    ... def double(x):
    ...     return x * 2
    >>> def partition(mesh, arg_shapes, result_shape):
    ...     return mesh, lambda x: x * 2, result_shape.sharding, (arg_shapes[0].sharding,)
    >>> double.def_partition(partition, sharding_rule="... -> ...")
    >>> double(jnp.arange(3)).tolist()
    [0, 2, 4]
    """

    def __init__(self, fun: Callable[..., Any], static_argnums: int | Iterable[int] = ()) -> None:
        self.fun = fun
        self._name = function_name(fun)
        self.static_argnums = static_argnums
        self._signature = CallSignature(fun, static_argnums, None)
        self._definition: _Definition | None = None
        functools.update_wrapper(self, fun)

    def def_partition(
        self,
        partition: Callable[..., Any],
        infer_sharding_from_operands: Callable[..., Any] | None = None,
        propagate_user_sharding: Callable[..., Any] | None = None,
        decode_shardings: bool = True,
        sharding_rule: str | SdyShardingRule | Callable[..., Any] | None = None,
        *,
        reduction_factors: tuple[str, ...] = (),
        need_replication_factors: tuple[str, ...] = (),
        permutation_factors: tuple[str, ...] = (),
        **factor_sizes: int,
    ) -> None:
        """Say how the function is partitioned.

        Args:
          partition: `(mesh, arg_shapes, result_shape) -> (mesh, function, result_shardings,
            arg_shardings)`. Shapes are pytrees of ShapeDtypeStructs with the shardings that the
            compiler proposes; the function is what each device does with its parts, and may use
            the axes of the mesh in collectives; arguments are brought into the shardings that come
            back.
          sharding_rule: which dimensions belong together, as `"i k, k j -> i j"` or an
            SdyShardingRule, or a function `(mesh, arg_shapes, result_shape)` that gives one. It
            says how shardings are propagated. Without it results are cut as the next function says.
          infer_sharding_from_operands: `(mesh, arg_shapes, result_shape) -> result_shardings`.
          propagate_user_sharding: `(mesh, result_shape) -> sharding`, for each result: what is
            proposed to `partition` instead of what users of the result want.
          decode_shardings: without effect: shardings are always NamedShardings.
          reduction_factors, need_replication_factors, permutation_factors, factor_sizes: of a rule
            that is text; see SdyShardingRule.
        Raises:
          ValueError: the rule is not written as rules are.
        """
        params: dict[str, Any] = {
            "reduction_factors": reduction_factors,
            "need_replication_factors": need_replication_factors,
            "permutation_factors": permutation_factors,
            **factor_sizes,
        }
        rule = parse_rule(sharding_rule, **params) if isinstance(sharding_rule, str) else None
        self._definition = _Definition(
            self._name,
            partition,
            infer_sharding_from_operands,
            propagate_user_sharding,
            sharding_rule if rule is None else rule,
            params,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._definition is None:
            fail(
                AttributeError,
                f"No partition rule of {self._name} was defined.",
                "a function with custom_partitioning says how devices compute it on parts.",
                f"call {self._name}.def_partition(...) before it is used.",
            )
        given, _, static = self._signature.split(args, kwargs)
        leaves, in_tree = tree_flatten((given, {}))
        avals = [abstractify(x) for x in leaves]
        key = self._signature.static_key_if_any(static)
        traced = trace_function("custom_partitioning", self.fun, in_tree, avals, static, key)
        if any(isinstance(c, Tracer) for c in traced.consts):
            fail(
                UnexpectedTracerError,
                f"{self._name} closes over a value that is being traced.",
                "parts of such a value would not be known: a function with custom_partitioning is "
                "one of its arguments only.",
                "pass the value as an argument.",
            )
        outs = custom_partitioning_p.bind_all(
            *leaves,
            call=traced.with_constants,
            definition=self._definition,
            static=tuple(value for _, value in static),
            in_tree=tree_structure(tree_unflatten(in_tree, leaves)[0]),
            out_tree=traced.out_tree,
        )
        return tree_unflatten(traced.out_tree, outs)


class _Definition:
    """What `def_partition` was given. Equal by identity."""

    def __init__(
        self,
        name: str,
        partition: Callable[..., Any],
        infer: Callable[..., Any] | None,
        of_users: Callable[..., Any] | None,
        rule: Any,
        rule_params: dict[str, Any],
    ) -> None:
        self.name = name
        self.partition = partition
        self.infer = infer
        self.of_users = of_users
        self.rule = rule
        self.rule_params = rule_params


class _Rule(PartitioningRule):
    """Of one call, in the words of the compiler."""

    devices: Sequence[Any]
    definition: _Definition
    static: tuple[Any, ...]
    in_tree: PyTreeDef
    out_tree: PyTreeDef
    in_avals: Sequence[ShapedArray]
    out_avals: Sequence[ShapedArray]

    def mappings(self) -> Mappings | None:
        rule = self.definition.rule
        if callable(rule):
            mesh = mesh_of_devices(None, self.devices)
            plain = [(self.in_tree, self.in_avals), (self.out_tree, self.out_avals)]
            shapes = [tree_unflatten(t, list(map(_struct, avals))) for t, avals in plain]
            rule = rule(*self.static, mesh, *shapes)
            rule = parse_rule(rule, **self.definition.rule_params) if type(rule) is str else rule
        if rule is None:
            return None
        return rule.mappings([a.shape for a in self.in_avals], [a.shape for a in self.out_avals])

    def results_of(self, operands: Sequence[Sharding]) -> Sequence[Sharding] | None:
        infer = self.definition.infer
        if infer is None:
            return None
        mesh, args = self._described(operands, self.in_avals, self.in_tree)
        plain = tree_unflatten(self.out_tree, list(map(_struct, self.out_avals)))
        found = infer(*self.static, mesh, args, plain)
        return self._said("infer_sharding_from_operands", found, self.out_tree, self.out_avals)

    def partitioned(
        self, operands: Sequence[Sharding], results: Sequence[Sharding]
    ) -> PartitionedCall:
        definition = self.definition
        mesh, args = self._described(operands, self.in_avals, self.in_tree)
        _, wanted = self._described(results, self.out_avals, self.out_tree)
        if definition.of_users is not None and definition.rule is None:
            suggest = functools.partial(definition.of_users, *self.static, mesh)
            wanted = tree_map(lambda s: _struct(s, suggest(s)), wanted)
        mesh, function, out, given = definition.partition(*self.static, mesh, args, wanted)
        cut = self._said("partition", given, self.in_tree, self.in_avals)
        made = self._said("partition", out, self.out_tree, self.out_avals)
        parts = [
            a.update(shape=s.shard_shape(a.shape))
            for a, s in zip(self.in_avals, tree_flatten(given)[0])
        ]
        closed = in_body(mesh, frozenset(mesh.axis_names), False, self._traced, function, parts)
        module = ModuleContext(self.definition.name, self.devices[0].platform, self.devices)
        where = hlo_mesh(mesh, self.devices)
        module.manual = ManualMesh(mesh.axis_names, where, frozenset(mesh.axis_names), "{manual}")
        context = LoweringContext(module, HloBuilder("parts"))
        return PartitionedCall(
            context.lower_jaxpr(closed, f"{self.definition.name}_parts"), cut, made
        )

    def _traced(self, function: Callable[..., Any], parts: Sequence[Any]) -> ClosedJaxpr:
        def run(*leaves: Any) -> list[Any]:
            outs, tree = tree_flatten(function(*tree_unflatten(self.in_tree, list(leaves))))
            if tree != self.out_tree:
                fail(
                    TypeError,
                    f"The function that partition gave for {self.definition.name} returns {tree}.",
                    f"the function that it stands for returns {self.out_tree}.",
                    "return the results for the parts in the same structure.",
                )
            return outs

        return trace_to_jaxpr(run, parts)[0]

    def _described(
        self, shardings: Sequence[Sharding], avals: Sequence[ShapedArray], tree: PyTreeDef
    ) -> tuple[Mesh, Any]:
        """The mesh, and arrays by shape, dtype and sharding."""
        where = next((s.mesh for s in shardings if s.mesh is not None), None)
        mesh = mesh_of_devices(where, self.devices)
        found = []
        for aval, sharding in zip(avals, shardings):
            rank = len(aval.shape)
            named = named_sharding(sharding, mesh, rank)
            entries = [*named.spec, *[None] * (rank - len(named.spec))]
            found.append(_struct(aval, named.update(spec=PartitionSpec(*entries))))
        return mesh, tree_unflatten(tree, found)

    def _said(
        self, what: str, shardings: Any, tree: PyTreeDef, avals: Sequence[ShapedArray]
    ) -> list[Sharding]:
        leaves, found = tree_flatten(shardings)
        if found != tree or not all(isinstance(s, NamedSharding) for s in leaves):
            fail(
                TypeError,
                f"{what} of {self.definition.name} gave the shardings {shardings}.",
                f"there are arrays of structure {tree}, and each lies as a NamedSharding says.",
                "give a NamedSharding for each array, in the same structure.",
            )
        return [hlo_sharding(s, self.devices, len(a.shape)) for s, a in zip(leaves, avals)]


def _struct(x: Any, sharding: Any = None) -> ShapeDtypeStruct:
    return ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)


def _lowering(
    ctx: LoweringContext,
    *operands: Instruction,
    call: ClosedJaxpr,
    definition: _Definition,
    static: tuple[Any, ...],
    in_tree: PyTreeDef,
    out_tree: PyTreeDef,
) -> list[Instruction]:
    module = ctx.module
    if len(module.devices) < 2 or module.manual is not None:
        return ctx.call(call, "custom_partitioning", *operands)
    rule = _Rule(f"{definition.name} {next(_numbers)}")
    rule.devices, rule.definition = module.devices, definition
    rule.static, rule.in_tree, rule.out_tree = static, in_tree, out_tree
    rule.in_avals, rule.out_avals = list(ctx.avals_in), list(ctx.avals_out)
    attributes = CustomCallAttributes(TARGET, rule)
    shape = Shape.tuple(ctx.shapes_out)
    made = ctx.builder.add(Opcode.CUSTOM_CALL, operands, attributes, shape=shape)
    return [ctx.builder.get_tuple_element(made, k) for k in range(len(ctx.avals_out))]


_NEEDED = "a function with custom_partitioning says how it is computed on parts, and no more"

custom_partitioning_p: Primitive = define_primitive(
    "custom_partitioning",
    abstract_eval=lambda *avals, call, **params: list(call.out_avals),
    jvp=Unsupported(f"{_NEEDED}: differentiate by custom_jvp or custom_vjp around it"),
    transpose=Unsupported(f"{_NEEDED}: differentiate by custom_vjp around it"),
    batching=Unsupported(f"{_NEEDED}: map by custom_vmap around it"),
    lowering=_lowering,
    multiple_results=True,
)
