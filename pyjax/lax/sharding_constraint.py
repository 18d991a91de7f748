"""with_sharding_constraint: a layout that a value must have. With one device it changes nothing.

It is written into the program all the same: as a sharding of HLO, or in the sharding dialect
(`jax_use_shardy_partitioner`), where names of meshes and axes stay. The compiler takes it out.
"""

from __future__ import annotations

from typing import Any

from pyjax._config import options
from pyjax.core.errors import fail, new_error
from pyjax.core.primitive import Primitive
from pyjax.core.tree_util import tree_broadcast, tree_map
from pyjax.interpreters.rules import LINEAR
from pyjax.lax.nary import define, unary_transpose
from pyjax.sharding.partition_spec import UNCONSTRAINED, PartitionSpec
from pyjax.sharding.shardings import (
    NamedSharding,
    Sharding,
    context_sharding,
    resolve_device,
    says_nothing,
)
from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.text_position import quote


def _constraint_batching(axis_size: int, args: Any, dims: Any, *, sharding: Any) -> Any:
    (x,), (dim,) = args, dims
    if isinstance(sharding, NamedSharding):
        entries = list(sharding.spec)
        if dim is not None and dim <= len(entries):
            entries.insert(dim, None)
        sharding = sharding.update(spec=PartitionSpec(*entries))
    return sharding_constraint_p.bind_all(x, sharding=sharding), [dim]


def _constraint_lowering(ctx: Any, x: Instruction, *, sharding: Any) -> Instruction:
    if not isinstance(sharding, NamedSharding):
        return x
    if options.use_shardy_partitioner.value:
        mesh = ctx.module.mesh_name(_mesh_text(sharding))
        text = f"#sdy.sharding<@{mesh}, [{', '.join(_dialect_axes(sharding, x.shape.rank))}]>"
        annotations = {"frontend_attributes": f"{{xla.sdy.sharding={quote(text)}}}"}
    else:
        annotations = {"sharding": "{replicated}"}  # over the one device that arrays have
    call = ctx.builder.add(
        Opcode.CUSTOM_CALL, (x,), CustomCallAttributes("Sharding"), shape=x.shape
    )
    call.annotations = annotations
    return call


def _mesh_text(sharding: NamedSharding) -> str:
    """`["x"=1, "y"=1]`."""
    sizes = sharding.mesh.shape.items()
    return f"[{', '.join(f'{quote(str(name))}={size}' for name, size in sizes)}]"


def _dialect_axes(sharding: NamedSharding, rank: int) -> list[str]:
    """`{"x"}`, `{}`, `{?}`, ... for each dimension."""
    entries = [*sharding.spec, *[None] * (rank - len(sharding.spec))]
    texts = []
    for entry in entries:
        names = entry if isinstance(entry, tuple) else (entry,)
        known = [quote(str(name)) for name in names if name not in (None, UNCONSTRAINED)]
        texts.append(f"{{{'?' if entry is UNCONSTRAINED else ', '.join(known)}}}")
    return texts


sharding_constraint_p: Primitive = define(
    "sharding_constraint",
    abstract_eval=lambda x, *, sharding: [x],
    jvp=LINEAR,
    transpose=unary_transpose(
        lambda ct, x, *, sharding: sharding_constraint_p.bind1(ct, sharding=sharding)
    ),
    batching=_constraint_batching,
    lowering=_constraint_lowering,
)


def _constrain(x: Any, target: Any) -> Any:
    sharding = context_sharding("with_sharding_constraint", target, RuntimeError, entered=True)
    if sharding is None:
        return x
    if not isinstance(sharding, Sharding):
        fail(
            TypeError,
            "with_sharding_constraint: shardings must be a Sharding or PartitionSpec, got "
            f"{type(sharding).__name__}.",
        )
    if says_nothing(sharding):
        raise new_error(
            ValueError,
            f"with_sharding_constraint got {sharding}",
            "its mesh is empty, so it says of no dimension how it is laid out",
            "leave the constraint out, or make the sharding with the mesh that you mean",
        )
    resolve_device(sharding)  # one device, or an error that says so
    if isinstance(sharding, NamedSharding):
        shape = getattr(x, "shape", ())
        sharding.check_compatible_aval(tuple(shape))
        sharding.shard_shape(tuple(shape))
    return sharding_constraint_p.bind1(x, sharding=sharding)


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """The same values, laid out over devices as told.

    Args:
      x: pytree of arrays.
      shardings: Sharding, PartitionSpec for the mesh in context, or a pytree prefix of those.
    Raises:
      RuntimeError: a PartitionSpec without a mesh in context.
      ValueError: a value has fewer dimensions than its PartitionSpec, or the mesh is empty.
      NotImplementedError: the sharding has several devices.
    """
    if shardings is None or isinstance(shardings, (Sharding, PartitionSpec)):
        return tree_map(lambda leaf: _constrain(leaf, shardings), x)
    targets = tree_broadcast(
        shardings, x, is_leaf=lambda t: t is None or isinstance(t, (Sharding, PartitionSpec))
    )
    return tree_map(_constrain, x, targets)
