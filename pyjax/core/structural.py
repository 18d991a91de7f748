"""The few primitives that interpreters need (add, zeros, broadcast, transpose, sum ...), declared
here.

`lax` gives them their rules. Below lax, use the helpers of this file. Layer: core.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pyjax._config import options
from pyjax.core.avals import (
    ShapedArray,
    Split,
    abstract_token,
    abstractify,
    physical_aval,
    sharding_of_split,
)
from pyjax.core.axis_env import in_order, outside_types
from pyjax.core.dtypes import canonicalize_dtype, float0
from pyjax.core.errors import fail, new_error
from pyjax.core.extended_dtypes import is_extended
from pyjax.core.manual_types import check_no_sum, moved, without_sums
from pyjax.core.primitive import Primitive

add_any_p = Primitive("add_any")
add_p = Primitive("add")
sub_p = Primitive("sub")
mul_p = Primitive("mul")
neg_p = Primitive("neg")
broadcast_in_dim_p = Primitive("broadcast_in_dim")
transpose_p = Primitive("transpose")
reshape_p = Primitive("reshape")
squeeze_p = Primitive("squeeze")
reduce_sum_p = Primitive("reduce_sum")
convert_element_type_p = Primitive("convert_element_type")
select_n_p = Primitive("select_n")
optimization_barrier_p = Primitive("optimization_barrier")
new_ref_p = Primitive("new_ref")
new_tangent_ref_p = Primitive("new_tangent_ref")
get_p = Primitive("get")
swap_p = Primitive("swap")
dimension_p = Primitive("dimension")
dimension_size_p = Primitive("dimension_size")
pvary_p = Primitive("pvary")
# Casts between what values are along manual axes of a mesh (manual_types.py).
preduced_p = Primitive("preduced")  # invarying to reduced
reduced_vary_cast_p = Primitive("reduced_vary_cast")  # reduced to varying
vary_unreduced_cast_p = Primitive("vary_unreduced_cast")  # varying to unreduced
unreduced_psum_p = Primitive("unreduced_psum")  # unreduced to invarying: the sum is made
reshard_p = Primitive("reshard")
random_wrap_p = Primitive("random_wrap")


def add_jaxvals(x: Any, y: Any) -> Any:
    """Sum of two (co)tangents."""
    if _is_float0(x):
        return y
    return add_any_p.bind1(x, y)


def _is_float0(x: Any) -> bool:
    return getattr(x, "dtype", None) == float0


def zeros_like_aval(aval: Any) -> Any:
    """Zeros of an aval (float0 avals give NumPy float0 arrays)."""
    return full(aval, 0)


def ones_like_aval(aval: Any) -> Any:
    """Ones of an aval."""
    return full(aval, 1)


def full(aval: Any, value: Any) -> Any:
    """An array of an aval filled with a scalar, which all words of random keys are set to."""
    if aval is abstract_token:
        raise new_error(TypeError, "a token has no zeros")
    if aval.dtype == float0:
        return np.zeros(aval.shape, float0)
    if aval.vma:
        return pvary(full(aval.update(vma=frozenset()), value), aval.vma)
    if aval.split is not None and any(aval.split.manual_sums):
        plain = full(without_sums(aval), value)
        return as_split(pvary(plain, aval.split.manual_sums[0]), aval.split)
    if is_extended(aval.dtype):
        words = full(physical_aval(aval), value)
        return random_wrap_p.bind1(words, impl=aval.dtype.impl)
    if canonicalize_dtype(aval.dtype) != aval.dtype:  # from a block where 64 bits are on
        with options.enable_x64(True):
            return full(aval, value)
    scalar: Any = aval.dtype.type(value)
    if aval.weak_type:
        scalar = convert_element_type(scalar, aval.dtype, weak_type=True)
    if aval.split is not None:
        return broadcast_in_dim(scalar, aval.shape, (), aval.sharding)
    return broadcast(scalar, aval.shape) if aval.shape or not aval.weak_type else scalar


def instantiate(x: Any, aval: Any) -> Any:
    """`x`, or zeros of `aval` when it is None."""
    return zeros_like_aval(aval) if x is None else x


def broadcast(x: Any, shape: Sequence[int]) -> Any:
    """New leading axes until `x` has `shape`."""
    shape = tuple(shape)
    ndim = abstractify(x).ndim
    return broadcast_in_dim(x, shape, tuple(range(len(shape) - ndim, len(shape))))


def broadcast_in_dim(
    x: Any, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...], sharding: Any = None
) -> Any:
    """Axis i of `x` becomes axis `broadcast_dimensions[i]` of an array of `shape`."""
    return broadcast_in_dim_p.bind1(
        x, shape=tuple(shape), broadcast_dimensions=tuple(broadcast_dimensions), sharding=sharding
    )


def transpose(x: Any, permutation: Sequence[int]) -> Any:
    """Permute axes."""
    permutation = tuple(permutation)
    if permutation == tuple(range(len(permutation))):
        return x
    return transpose_p.bind1(x, permutation=permutation)


def moveaxis(x: Any, source: int, destination: int) -> Any:
    """Move one axis; the others keep their order."""
    if source == destination:
        return x
    ndim = abstractify(x).ndim
    permutation = [i for i in range(ndim) if i != source]
    permutation.insert(destination, source)
    return transpose(x, permutation)


def reshape(x: Any, shape: Sequence[int]) -> Any:
    """Same elements, other shape."""
    if abstractify(x).shape == tuple(shape):
        return x
    return reshape_p.bind1(x, new_sizes=tuple(shape), dimensions=None, sharding=None)


def reduce_sum(x: Any, axes: Sequence[int]) -> Any:
    """Sum over axes."""
    axes = tuple(axes)
    return reduce_sum_p.bind1(x, axes=axes, out_sharding=None) if axes else x


def convert_element_type(x: Any, dtype: Any, weak_type: bool = False) -> Any:
    """Convert to `dtype`; nothing to do when dtype and weak type agree."""
    aval = abstractify(x)
    if (
        aval.dtype == dtype
        and aval.weak_type == weak_type
        and not isinstance(x, (bool, int, float, complex))
    ):
        return x
    return convert_element_type_p.bind1(x, new_dtype=dtype, weak_type=weak_type, sharding=None)


def pvary(x: Any, axes: Iterable[Any]) -> Any:
    """The same value, of the type of those that vary along mesh axes.

    Programs whose types do not say along which axes values vary have no need of it.
    """
    if not options.check_vma.value:
        return x
    aval = abstractify(x)
    missing = frozenset(axes) - aval.vma
    missing -= outside_types(missing)
    if missing:
        for primitive, some, _ in casts_to_vary(aval, missing):
            x = primitive.bind1(x, axes=some)
    return x


def casts_to_vary(aval: Any, axes: frozenset[Any]) -> list[tuple[Primitive, tuple[Any, ...], Any]]:
    """The casts, each with its axes and the type that it gives, of a value that does not vary along
    these axes to one that does.

    Raises:
      ValueError: along one of them the value is a sum that is still to be made.
    """
    casts = []
    split = aval.split
    reduced = frozenset[Any]() if split is None else axes & split.reduced
    if reduced:
        aval = moved(aval, reduced, "varying", split.mesh)
        casts.append((reduced_vary_cast_p, in_order(reduced), aval))
        axes -= reduced
    if axes:
        check_no_sum("pvary", aval, axes)
        aval = aval.update(vma=aval.vma | axes)
        casts.append((pvary_p, in_order(axes), aval))
    return casts


def as_split(x: Any, split: Split | None) -> Any:
    """The same value, split so over mesh axes of type Explicit; None: whole along them. Along
    manual axes it becomes a sum still to be made, or reduced, where it may."""
    have = abstractify(x).split
    if have == split:
        return x
    if any(s is not None and any(s.manual_sums) for s in (have, split)):
        return _with_sums(x, split)
    if split is None:
        split = Split(have.mesh, (None,) * len(have.entries))
    return reshard_p.bind1(x, dst_sharding=sharding_of_split(split))


def _with_sums(x: Any, split: Split | None) -> Any:
    """The same value, of a type that says of manual axes what a split says."""
    aval = abstractify(x)
    unreduced, reduced = (frozenset[Any](),) * 2 if split is None else split.manual_sums
    have = (frozenset[Any](),) * 2 if aval.split is None else aval.split.manual_sums
    if made := have[0] - unreduced:
        x = unreduced_psum_p.bind1(x, axes=in_order(made))
    if marked := reduced - have[1]:
        x = preduced_p.bind1(x, axes=in_order(marked))
    if split is not None and (summed := unreduced - have[0]):
        if not summed <= aval.vma:
            wanted = aval.update(vma=aval.vma - summed).with_split(split)
            fail(
                ValueError,
                f"Expected cotangent type {wanted.str_short()} but got {aval.str_short()}.",
                "of a value that is reduced along mesh axes the cotangent is a sum over these that "
                "is still to be made, and this one is the same on all devices",
                f"cast the value before: lax.pcast(x, {in_order(summed)}, to='varying').",
            )
        x = vary_unreduced_cast_p.bind1(x, axes=in_order(summed))
    if lost := have[1] - reduced:
        check_no_sum("a cotangent", aval, lost)
    return x


def mul(x: Any, y: Any) -> Any:
    return mul_p.bind1(x, y)


def sub(x: Any, y: Any) -> Any:
    return sub_p.bind1(x, y)


def neg(x: Any) -> Any:
    return neg_p.bind1(x)


__all__ = [
    "ShapedArray",
    "add_any_p",
    "add_jaxvals",
    "add_p",
    "as_split",
    "broadcast",
    "broadcast_in_dim",
    "broadcast_in_dim_p",
    "casts_to_vary",
    "convert_element_type",
    "convert_element_type_p",
    "full",
    "instantiate",
    "moveaxis",
    "mul",
    "mul_p",
    "neg",
    "neg_p",
    "ones_like_aval",
    "optimization_barrier_p",
    "preduced_p",
    "pvary",
    "pvary_p",
    "reduce_sum",
    "reduce_sum_p",
    "reduced_vary_cast_p",
    "reshape",
    "reshape_p",
    "reshard_p",
    "select_n_p",
    "squeeze_p",
    "sub",
    "sub_p",
    "transpose",
    "transpose_p",
    "unreduced_psum_p",
    "vary_unreduced_cast_p",
    "zeros_like_aval",
]
