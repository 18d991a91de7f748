"""What every family of lax shares: dtype classes, operand checks, abstract evaluation and lowering
helpers.

No primitive is defined here. The families (elementwise, shape, reduce, ...) build their tables from
these.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from pyjax._config import options
from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray, abstractify
from pyjax.core.errors import AxisError, fail
from pyjax.core.extended_dtypes import KeyDType
from pyjax.core.structural import convert_element_type_p
from pyjax.core.symbolic_dims import SymbolicDim, checked_size
from pyjax.core.traced_sizes import TracedSize, dimension_of, is_known
from xla_backend.hlo.attributes import NO_ATTRIBUTES, Attributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape

# -- dtype classes ---------------------------------------------------------------------------------


class DtypeClass:
    """A named set of dtypes that an operand may have; `keys`: those of random keys, too."""

    __slots__ = ("keys", "members", "text")

    def __init__(self, text: str, *groups: Iterable[Any], keys: bool = False) -> None:
        self.text = text
        self.members = frozenset(d for group in groups for d in group)
        self.keys = keys

    def __contains__(self, dtype: object) -> bool:
        return dtype in self.members or (self.keys and type(dtype) is KeyDType)

    def __or__(self, other: DtypeClass) -> DtypeClass:
        return DtypeClass(f"{self.text}, {other.text}", self.members, other.members)

    def __repr__(self) -> str:
        return f"DtypeClass({self.text})"


SIGNED = DtypeClass("signedinteger", dtypes.SIGNED)
UNSIGNED = DtypeClass("unsignedinteger", dtypes.UNSIGNED)
INTEGER = DtypeClass("integer", dtypes.SIGNED, dtypes.UNSIGNED)
BOOL = DtypeClass("bool", (dtypes.BOOL,))
FLOATING = DtypeClass("floating", dtypes.FLOATS)
COMPLEX = DtypeClass("complexfloating", dtypes.COMPLEX)
INEXACT = FLOATING | COMPLEX
REAL_NUMBER = INTEGER | FLOATING
NUMBER = INTEGER | FLOATING | COMPLEX
ORDERED = INTEGER | FLOATING | BOOL
LOGICAL = BOOL | INTEGER
ANY = NUMBER | BOOL
ANY_OR_KEY = DtypeClass(f"{ANY.text}, prng_key", ANY.members, keys=True)

BOOL_DTYPE = dtypes.BOOL


def is_complex(dtype: Any) -> bool:
    return dtype in COMPLEX.members


def is_inexact(dtype: Any) -> bool:
    return dtype in INEXACT.members


def is_floating(dtype: Any) -> bool:
    return dtype in FLOATING.members


def is_integer(dtype: Any) -> bool:
    return dtype in INTEGER.members


def real_dtype(dtype: np.dtype) -> np.dtype:
    """float32 for complex64, float64 for complex128, the dtype itself otherwise."""
    if dtype == np.complex64:
        return np.dtype(np.float32)
    if dtype == np.complex128:
        return np.dtype(np.float64)
    return dtype


def complex_dtype(dtype: np.dtype) -> np.dtype:
    """The complex dtype whose parts have this real dtype."""
    return np.dtype(np.complex128 if dtype in (np.float64, np.complex128) else np.complex64)


# -- checks ----------------------------------------------------------------------------------------


def check_dtype(
    name: str, aval: ShapedArray, accepted: DtypeClass, position: int | None = None
) -> None:
    if aval.dtype not in accepted:
        where = "" if position is None else f" at position {position}"
        dtype = aval.dtype
        fail(
            TypeError,
            f"{name} does not accept dtype {dtype}{where}. Accepted dtypes{where} are subtypes of "
            f"{accepted.text}.",
            f"the operand is {aval.str_short()}.",
            "convert it first, e.g. with lax.convert_element_type(x, jnp.float32)."
            if accepted.members <= INEXACT.members
            else "convert it first with lax.convert_element_type.",
        )


# -- operands --------------------------------------------------------------------------------------


def aval_of(x: ArrayLike) -> ShapedArray:
    """The abstract value of an Array, Tracer, NumPy value or Python scalar."""
    try:
        return x.aval  # type: ignore[union-attr]  # asking for the type would cost more
    except AttributeError:
        return abstractify(x)


def joint_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that these broadcast to, which the caller knows them to do.

    NumPy's has a limit to the number of elements, that the sizes which stand for any size exceed.
    """
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(next((n for n in sizes if n != 1), 1) for sizes in zip(*padded))


def shape_of(x: ArrayLike) -> tuple[int, ...]:
    return aval_of(x).shape


def dtype_of(x: ArrayLike) -> np.dtype:
    return aval_of(x).dtype


def ndim_of(x: ArrayLike) -> int:
    return len(aval_of(x).shape)


_PYTHON_SCALARS = frozenset({bool, int, float, complex})
_INTS = frozenset({int})


def scalar_like(value: ArrayLike, x: ArrayLike) -> Any:
    """A scalar constant with x's dtype (a NumPy scalar array; weakly typed if x is)."""
    aval = aval_of(x)
    if aval.weak_type and type(value) in _PYTHON_SCALARS and abstractify(value).dtype == aval.dtype:
        return value
    constant = np.asarray(value).astype(aval.dtype)
    dtype = aval.dtype
    return constant if canonical_dtype(dtype) is dtype else _of_64_bits(constant)


def _of_64_bits(constant: np.ndarray | np.generic) -> Array:
    """The constant in its own dtype, where 64-bit types are off but meet arrays that have them."""
    with options.enable_x64(True):
        return convert_element_type_p.bind1(
            constant, new_dtype=constant.dtype, weak_type=False, sharding=None
        )


def nary_operands(name: str, *args: ArrayLike) -> tuple[Any, ...]:
    """Give Python scalars the dtype of the other operands; all dtypes must then agree.

    Raises:
      TypeError: dtypes differ (lax does not promote; jnp does).
    """
    first = None
    for x in args:
        kind = type(x)
        if kind in _PYTHON_SCALARS:
            dtype = canonical_dtype(dtypes.PYTHON_SCALARS[kind])
        else:
            dtype = aval_of(x).dtype
        if first is None:
            first = dtype
        elif dtype is not first and dtype != first:
            break
    else:
        return args
    args = _constants_kept_wide(args)
    avals = [aval_of(x) for x in args]
    strong = [a for x, a in zip(args, avals) if type(x) not in _PYTHON_SCALARS]
    if strong and len({a.dtype for a in strong}) == 1:
        target = strong[0].dtype
        if all(type(x) not in _PYTHON_SCALARS or _scalar_fits(x, target) for x in args):
            return tuple(
                scalar_like(x, strong_value(args)) if type(x) in _PYTHON_SCALARS else x
                for x in args
            )
    texts = ", ".join(str(a.dtype) for a in avals)
    public = name if name.startswith("lax.") else f"lax.{name}"
    fail(
        TypeError,
        f"{public} requires arguments to have the same dtypes, got {texts}.",
        f"the operands are {', '.join(a.str_short() for a in avals)}; lax functions do not "
        "promote.",
        f"jnp.{public[4:]} is a similar function that does automatic type promotion on inputs, or "
        "convert one operand with lax.convert_element_type.",
    )


def _constants_kept_wide(args: tuple[ArrayLike, ...]) -> tuple[ArrayLike, ...]:
    """NumPy values beside an array of their 64-bit dtype, which was made where such types are on,
    keep it where they are off."""
    kept = {x.dtype for x in args if isinstance(x, Array)}
    if len(kept) != 1 or kept == {canonical_dtype(*kept)}:
        return args
    return tuple(
        _of_64_bits(x) if isinstance(x, (np.ndarray, np.generic)) and x.dtype in kept else x
        for x in args
    )


def strong_value(args: Sequence[ArrayLike]) -> ArrayLike:
    """The first operand that is not a Python scalar."""
    return next(x for x in args if type(x) not in _PYTHON_SCALARS)


def _scalar_fits(x: ArrayLike, target: np.dtype) -> bool:
    """A Python scalar takes the dtype of its own kind (float for a bfloat16 array), never another
    kind.
    """
    if type(x) is bool:
        return target == BOOL_DTYPE
    if type(x) is int:
        return target in INTEGER.members
    if type(x) is float:
        return target in FLOATING.members
    return target in COMPLEX.members


# Collections of what may be integers that are no shape.
NO_SHAPES = (bytes, str, set, frozenset, dict)


def canonical_shape(shape: Any, name: str = "shape") -> tuple[int, ...]:
    """A tuple of nonnegative Python ints.

    Raises:
      TypeError: an entry is not an integer (a traced value, for instance), or is negative.
    """
    if isinstance(shape, tuple) and _INTS.issuperset(map(type, shape)):
        if not shape or min(shape) >= 0:
            return shape
        result = shape
    else:
        single = isinstance(shape, (int, np.integer, SymbolicDim, TracedSize, *NO_SHAPES))
        entries = (shape,) if single else tuple(shape)
        try:
            result = tuple([_known_or_traced(d) for d in entries])
        except TypeError:
            fail(
                TypeError,
                f"Shapes must be 1D sequences of concrete values of integer type, got {entries}.",
                "array shapes are part of the type of a traced value.",
                "compute sizes from static values such as x.shape, or mark them static_argnums "
                "in jit.",
            )
    if any(not isinstance(d, TracedSize) and d < 0 for d in result):
        fail(TypeError, f"{name} must have every element be nonnegative, got {result}.")
    return result


def _known_or_traced(size: Any) -> Any:
    try:
        return checked_size(size)
    except TypeError:
        traced = dimension_of(size)
        if traced is None:
            raise
        return traced


def canonical_dims(name: str, dims: Any) -> tuple[int, ...]:
    """Dimension numbers as a tuple of Python ints, unchecked."""
    if isinstance(dims, tuple) and _INTS.issuperset(map(type, dims)):
        return dims
    if isinstance(dims, (int, np.integer)):
        return (int(dims),)
    try:
        return tuple(checked_size(d) for d in dims)
    except TypeError:
        fail(TypeError, f"{name} needs integer dimension numbers, got {dims!r}.")


def canonical_axis(name: str, axis: int, ndim: int) -> int:
    """A nonnegative axis; negative ones count from the end."""
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        fail(
            AxisError,
            f"{name}: axis {axis} is out of bounds for array of dimension {ndim}",
            fix=f"use an axis in [{-ndim}, {ndim})." if ndim else "scalars have no axes.",
        )
    return axis + ndim if axis < 0 else axis


def canonical_dtype(dtype: Any) -> Any:
    return dtypes.canonicalize_dtype(dtype)


# -- abstract evaluation ---------------------------------------------------------------------------


def elementwise_aval(
    name: str, accepts: DtypeClass, result: Callable[[np.dtype], np.dtype] | None = None
) -> Callable[..., list[ShapedArray]]:
    """Unary: shape in, shape out; dtype checked, and mapped by `result` if given."""

    members = accepts.members

    def rule(x: ShapedArray, **params: Any) -> list[ShapedArray]:
        if x.dtype not in members:
            check_dtype(name, x, accepts)
        return [x if result is None else ShapedArray(x.shape, result(x.dtype), x.weak_type)]

    return rule


def broadcast_result_shape(name: str, avals: Sequence[ShapedArray]) -> tuple[int, ...]:
    """Shape of an n-ary elementwise op: equal ranks (scalars always fit), size-1 dimensions
    stretch.
    """
    shape = avals[0].shape
    for aval in avals:
        if aval.shape != shape:
            break
    else:
        return shape
    shapes = [a.shape for a in avals if a.shape]
    if len({len(s) for s in shapes}) > 1:
        texts = ", ".join(a.str_short() for a in avals)
        ranks = ", ".join(str(len(s)) for s in shapes)
        fail(
            TypeError,
            f"{name}: arrays must have the same number of dimensions, got {ranks}.",
            f"the operands are {texts}; lax functions do not broadcast across ranks.",
            f"use jnp.{name}, or lax.broadcast_in_dim / lax.expand_dims on the smaller operand.",
        )
    result = []
    for sizes in zip(*shapes):
        stretched = {d for d in sizes if d != 1}
        if len(stretched) > 1:
            got = ", ".join(str(s) for s in shapes)
            fail(
                TypeError,
                f"{name} got incompatible shapes for broadcasting: {got}.",
                f"the operands are {', '.join(a.str_short() for a in avals)}.",
                "make the sizes equal, or 1 where a dimension should stretch."
                if all(map(is_known, shapes))
                else "use the same traced integer for both: sizes that were computed apart are not "
                "known to be equal.",
            )
        result.append(stretched.pop() if stretched else 1)
    return tuple(result)


def nary_aval(
    name: str,
    accepts: Sequence[DtypeClass],
    result: Callable[..., np.dtype] | None = None,
) -> Callable[..., list[ShapedArray]]:
    """N-ary elementwise: dtypes checked per position, and equal; shapes broadcast."""

    def rule(*avals: ShapedArray, **params: Any) -> list[ShapedArray]:
        return [infer(*avals)]

    # Avals are interned: hashing them is cheap. First calls meet few types twice, so that keeping
    # one must be cheap, too.
    @lru_cache(maxsize=256)
    def infer(*avals: ShapedArray) -> ShapedArray:
        first = avals[0]
        weak = True
        for i, (aval, accepted) in enumerate(zip(avals, accepts)):
            if aval.dtype not in accepted.members:
                check_dtype(name, aval, accepted, i)
            if aval.dtype != first.dtype:
                texts = ", ".join(str(a.dtype) for a in avals)
                fail(
                    TypeError,
                    f"lax.{name} requires arguments to have the same dtypes, got {texts}.",
                    "lax functions do not promote.",
                    f"jnp.{name} is a similar function that does automatic type promotion on "
                    "inputs.",
                )
            weak = weak and aval.weak_type
        shape = broadcast_result_shape(name, avals)
        if result is None:
            dtype = first.dtype
        else:
            dtype = result(*[a.dtype for a in avals])
        return ShapedArray(shape, dtype, weak)

    return rule


def to_bool(*_: np.dtype) -> np.dtype:
    return BOOL_DTYPE


# -- lowering --------------------------------------------------------------------------------------


def hlo_broadcast_to(builder: Any, x: Instruction, dimensions: tuple[int, ...]) -> Instruction:
    """Stretch a scalar or size-1 dimensions; ranks are equal otherwise."""
    have = x.shape.dimensions
    if have == dimensions:
        return x
    if not have:
        return builder.broadcast(x, dimensions, ())
    kept = [i for i, (a, b) in enumerate(zip(have, dimensions)) if a == b]
    x = builder.reshape(x, [have[i] for i in kept])
    return builder.broadcast(x, dimensions, kept)


def hlo_unary(opcode: Opcode) -> Callable[..., Instruction]:
    """One operand, one instruction of the output's shape."""

    def rule(ctx: Any, x: Instruction, **params: Any) -> Instruction:
        return ctx.builder.add(opcode, (x,), shape=ctx.shapes_out[0])

    return rule


def hlo_nary(opcode: Opcode, attributes: Attributes = NO_ATTRIBUTES) -> Callable[..., Instruction]:
    """Operands broadcast to the output's dimensions, then one instruction."""

    def rule(ctx: Any, *operands: Instruction, **params: Any) -> Instruction:
        shape: Shape = ctx.shapes_out[0]
        dims = shape.dimensions
        builder = ctx.builder
        for x in operands:
            if x.shape.dimensions != dims:
                operands = tuple(hlo_broadcast_to(builder, x, dims) for x in operands)
                break
        return builder.add(opcode, operands, attributes, shape=shape)

    return rule


def identity_lowering(ctx: Any, x: Instruction, **params: Any) -> Instruction:
    return x
