"""eval_shape and ShapeDtypeStruct: shapes and dtypes without values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyjax.core import dtypes
from pyjax.core.avals import ShapedArray, aval_described, checked_shape
from pyjax.core.errors import new_error
from pyjax.core.pytree import tree_flatten, tree_unflatten
from pyjax.core.traceback_filter import api_boundary
from pyjax.interpreters.traced_function import trace_function
from pyjax.sharding.layouts import Format
from pyjax.sharding.manual_axes import ManualAxisType
from pyjax.sharding.partition_spec import PartitionSpec
from pyjax.sharding.shardings import NamedSharding, Sharding, context_sharding, says_nothing


class ShapeDtypeStruct:
    """Shape and dtype of an array, to stand for one in eval_shape, lowering and tracing.

    A 64-bit dtype is kept; the array that it stands for is narrower where 64-bit types are off.

    Args:
      sharding: how it lies.
      manual_axis_type: along which mesh axes it varies, inside of shard_map; a ManualAxisType.

    >>> ShapeDtypeStruct((2, 3), "float32")
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """

    __slots__ = ("dtype", "manual_axis_type", "shape", "sharding", "weak_type")

    def __init__(
        self,
        shape: Sequence[int],
        dtype: Any,
        *,
        sharding: Any = None,
        weak_type: bool = False,
        manual_axis_type: ManualAxisType | None = None,
        is_ref: bool = False,
    ) -> None:
        del is_ref
        if dtype is None:
            raise new_error(ValueError, "ShapeDtypeStruct: dtype must be specified")
        self.shape = checked_shape(shape)
        self.dtype = dtypes.dtype(dtype, canonicalize=False)
        self.sharding = self._checked(sharding)
        self.weak_type = bool(weak_type)
        if not (manual_axis_type is None or isinstance(manual_axis_type, ManualAxisType)):
            raise new_error(
                TypeError,
                "ShapeDtypeStruct: manual_axis_type must be a ManualAxisType, got "
                f"{manual_axis_type!r} of type {type(manual_axis_type).__name__}.",
                "It says along which mesh axes the array varies inside of shard_map.",
                "Write jax.sharding.ManualAxisType(varying={...}), or that of jax.typeof(x).",
            )
        self.manual_axis_type = manual_axis_type

    def _checked(self, sharding: Any) -> Any:
        if isinstance(sharding, PartitionSpec):
            sharding = context_sharding("ShapeDtypeStruct", sharding, TypeError)
        elif not (sharding is None or isinstance(sharding, (Sharding, Format))):
            raise new_error(
                ValueError,
                f"ShapeDtypeStruct: sharding must be a Sharding, a PartitionSpec or a Format, got "
                f"{sharding} of type {type(sharding).__name__}.",
                "It says how the array that is described lies.",
                "Leave it out, or write SingleDeviceSharding(device) for a device.",
            )
        if isinstance(sharding, NamedSharding) and not says_nothing(sharding):
            sharding.shard_shape(self.shape)
        return sharding

    @classmethod
    def like(cls, x: Any) -> ShapeDtypeStruct:
        """The description of an array, a number or another description.

        >>> import pyjax.numpy as jnp
        >>> ShapeDtypeStruct.like(jnp.ones(2))
        ShapeDtypeStruct(shape=(2,), dtype=float32)
        """
        return struct_of(aval_described(x))

    @property
    def aval(self) -> ShapedArray:
        dtype = dtypes.canonicalize_dtype(self.dtype)
        aval = ShapedArray(self.shape, dtype, self.weak_type, sharding=self.sharding)
        manual = self.manual_axis_type
        return aval if manual is None else aval.update(vma=frozenset(manual.varying))

    @property
    def is_ref(self) -> bool:
        """Whether it describes a reference: these describe arrays."""
        return False

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        total = 1
        for n in self.shape:
            total *= n
        return total

    def __len__(self) -> int:
        if not self.shape:
            raise new_error(TypeError, "len() of unsized object")
        return self.shape[0]

    def update(self, **changes: Any) -> ShapeDtypeStruct:
        """A copy with some fields replaced."""
        fields = {n: changes.get(n, getattr(self, n)) for n in self.__slots__}
        return ShapeDtypeStruct(fields.pop("shape"), fields.pop("dtype"), **fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return (self.shape, self.dtype, self.sharding, self.weak_type, self.manual_axis_type)

    def __repr__(self) -> str:
        extra = f", sharding={self.sharding}" if self.sharding is not None else ""
        extra += ", weak_type=True" if self.weak_type else ""
        if self.manual_axis_type is not None:
            extra += f", manual_axis_type={self.manual_axis_type}"
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype}{extra})"


def struct_of(aval: ShapedArray) -> ShapeDtypeStruct:
    """The description of an abstract value."""
    sharding = None if aval.split is None else aval.sharding
    return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=sharding)


@api_boundary
def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Shapes and dtypes of `fun(*args, **kwargs)` without computing anything.

    Args:
      args, kwargs: pytrees of arrays, numbers, avals, or objects with shape and dtype, such as
        ShapeDtypeStructs.
    Returns:
      The result's pytree, of ShapeDtypeStructs.

    >>> import pyjax.numpy as jnp
    >>> eval_shape(jnp.dot, jnp.ones((2, 3)), jnp.ones((3, 4))).shape
    (2, 4)
    """
    leaves, in_tree = tree_flatten((args, kwargs))
    traced = trace_function("eval_shape", fun, in_tree, [aval_described(x) for x in leaves])
    return tree_unflatten(traced.out_tree, [struct_of(a) for a in traced.out_avals])
