"""with_sharding_constraint: a layout that a value must have. With one device it changes nothing."""

from __future__ import annotations

from typing import Any

from pyjax.core.errors import fail
from pyjax.core.primitive import Primitive
from pyjax.core.tree_util import tree_broadcast, tree_map
from pyjax.interpreters.rules import LINEAR
from pyjax.lax.common import identity_lowering
from pyjax.lax.nary import define, unary_transpose
from pyjax.sharding.partition_spec import PartitionSpec
from pyjax.sharding.shardings import NamedSharding, Sharding, context_sharding, resolve_device


def _constraint_batching(axis_size: int, args: Any, dims: Any, *, sharding: Any) -> Any:
    (x,), (dim,) = args, dims
    if isinstance(sharding, NamedSharding):
        entries = list(sharding.spec)
        if dim is not None and dim <= len(entries):
            entries.insert(dim, None)
        sharding = sharding.update(spec=PartitionSpec(*entries))
    return sharding_constraint_p.bind(x, sharding=sharding), [dim]


sharding_constraint_p: Primitive = define(
    "sharding_constraint",
    abstract_eval=lambda x, *, sharding: [x],
    jvp=LINEAR,
    transpose=unary_transpose(
        lambda ct, x, *, sharding: sharding_constraint_p.bind1(ct, sharding=sharding)
    ),
    batching=_constraint_batching,
    lowering=identity_lowering,
)


def _constrain(x: Any, target: Any) -> Any:
    sharding = context_sharding(target)
    if sharding is None:
        return x
    if not isinstance(sharding, Sharding):
        fail(
            TypeError,
            "with_sharding_constraint: shardings must be a Sharding or PartitionSpec, got "
            f"{type(sharding).__name__}.",
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
      ValueError: a value has fewer dimensions than its PartitionSpec.
      NotImplementedError: the sharding has several devices.
    """
    if shardings is None or isinstance(shardings, (Sharding, PartitionSpec)):
        return tree_map(lambda leaf: _constrain(leaf, shardings), x)
    targets = tree_broadcast(
        shardings, x, is_leaf=lambda t: t is None or isinstance(t, (Sharding, PartitionSpec))
    )
    return tree_map(_constrain, x, targets)
