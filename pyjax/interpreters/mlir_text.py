"""Types and attributes of MLIR as text, for lowering rules that name them. Layer: interpreters.

Rules here add instructions of HLO (`ctx.builder`), and programs are printed as StableHLO
afterwards: what MLIR has objects for is text. Functions that only make sense for objects of MLIR
raise an error when they are called, which says what to use instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol

import numpy as np

from pyjax.core import dtypes
from pyjax.core.avals import AbstractToken, ShapedArray
from pyjax.core.errors import fail
from pyjax.core.jaxpr import ClosedJaxpr
from xla_backend.process.light_dataclasses import dataclass


class Type(str):
    """A type, such as `tensor<2xf32>`; equal to its text."""


class Attribute(str):
    """An attribute, such as `3 : i32`; equal to its text."""


class Module:
    """A program as text.

    >>> str(Module.parse("module {\\n}"))
    'module {\\n}'
    """

    def __init__(self, text: str) -> None:
        self._text = text

    @staticmethod
    def parse(asm: str, context: Any = None) -> Module:
        """The module of a text, as it is."""
        return Module(asm)

    def __str__(self) -> str:
        return self._text


class Context:
    """Where MLIR keeps what objects share; texts share nothing."""

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *error: object) -> None:
        return None


class Location(Context):
    """Where an operation comes from: instructions carry the user's line by themselves."""

    @staticmethod
    def unknown(context: Any = None) -> Location:
        return Location()


ir = SimpleNamespace(
    Attribute=Attribute, Context=Context, Location=Location, Module=Module, Type=Type
)


def make_ir_context() -> Context:
    """A context to enter; it holds nothing."""
    return Context()


# -- types -----------------------------------------------------------------------------------------


def dtype_to_ir_type(dtype: Any) -> Type:
    """The element type of a dtype.

    >>> dtype_to_ir_type(np.dtype("complex64"))
    'complex<f32>'
    """
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        return Type(f"complex<f{4 * dtype.itemsize}>")
    if dtype == dtypes.bfloat16:
        return Type("bf16")
    if dtype.kind == "b":
        return Type("i1")
    name = dtype.name
    if name.startswith("float") and "_" in name:
        bits, _, rest = name.removeprefix("float").partition("_")
        return Type(f"f{bits}{rest.upper()}")
    digits = "".join(c for c in name if c.isdigit())
    kind = "ui" if name.startswith("u") else "f" if "float" in name else "i"
    return Type(f"{kind}{digits}")


def _tensor(aval: ShapedArray) -> Type:
    sizes = "".join(f"{n if isinstance(n, int) else '?'}x" for n in aval.shape)
    return Type(f"tensor<{sizes}{dtype_to_ir_type(aval.dtype)}>")


ir_type_handlers: dict[type, Callable[[Any], Any]] = {
    ShapedArray: _tensor,
    AbstractToken: lambda aval: token_type(),
}


def token_type(context: Any = None) -> Type:
    """The type of tokens."""
    return Type("!stablehlo.token")


def aval_to_ir_types(ctx: Any, aval: Any) -> tuple[Type, ...]:
    """The types that a value has in programs; most have one.

    Raises:
      TypeError: no handler is registered for the class of `aval`.
    """
    handler = ir_type_handlers.get(type(aval))
    if handler is None:
        fail(
            TypeError,
            f"No ir_type_handler for aval type: {type(aval).__name__}",
            fix="register one in mlir.ir_type_handlers.",
        )
    found: Any = handler(aval)
    if isinstance(found, Type):
        return (found,)
    return tuple(found)


def aval_to_ir_type(ctx: Any, aval: Any) -> Type:
    """The one type of a value.

    >>> aval_to_ir_type(None, ShapedArray((2, 3), np.dtype("float32")))
    'tensor<2x3xf32>'
    """
    types = aval_to_ir_types(ctx, aval)
    if len(types) != 1:
        raise TypeError(f"{aval} has {len(types)} types; use aval_to_ir_types.")
    return types[0]


# -- attributes ------------------------------------------------------------------------------------


def i32_attr(i: Any) -> Attribute:
    """An integer of 32 bits.

    >>> i32_attr(3)
    '3 : i32'
    """
    return Attribute(f"{int(i)} : i32")


def i64_attr(i: Any) -> Attribute:
    """An integer of 64 bits."""
    return Attribute(f"{int(i)} : i64")


def dense_int_elements(xs: Sequence[int]) -> Attribute:
    """A tensor of integers.

    >>> dense_int_elements([1, 2])
    'dense<[1, 2]> : tensor<2xi64>'
    """
    return Attribute(f"dense<{[int(x) for x in xs]}> : tensor<{len(xs)}xi64>")


def dense_int_array(values: Sequence[int], context: Any = None) -> Attribute:
    """A list of integers."""
    numbers = ", ".join(str(int(x)) for x in values)
    return Attribute(f"array<i64{': ' if values else ''}{numbers}>")


def ir_attribute(val: Any) -> Attribute:
    """A Python value as an attribute: bools, numbers, strings, dtypes, sequences and dictionaries.

    Raises:
      TypeError: something else.

    >>> ir_attribute([1, "a"])
    '[1 : i64, "a"]'
    """
    match val:
        case Attribute():
            return val
        case bool() | np.bool_():
            text = str(bool(val)).lower()
        case np.dtype():
            text = dtype_to_ir_type(val)
        case np.integer() | np.floating():
            number = f"{float(val):.6e}" if val.dtype.kind == "f" else str(int(val))
            text = f"{number} : {dtype_to_ir_type(val.dtype)}"
        case int():
            text = f"{val} : i64"
        case float():
            text = f"{val:.6e} : f64"
        case str():
            escaped = val.replace("\\", "\\\\").replace('"', '\\"')
            text = f'"{escaped}"'
        case Mapping():
            text = "{" + ", ".join(f"{k} = {ir_attribute(v)}" for k, v in val.items()) + "}"
        case list() | tuple():
            text = f"[{', '.join(map(ir_attribute, val))}]"
        case _:
            fail(
                TypeError,
                f"No attribute handler defined for type: {type(val)}",
                "Attributes are text here.",
                "Pass bools, numbers, strings, dtypes, sequences or dictionaries of them.",
            )
    return Attribute(text)


# -- lists of values -------------------------------------------------------------------------------


def _flattened(xs: Iterable[Any]) -> list[Any]:
    flat: list[Any] = []
    for x in xs:
        flat.extend(x) if isinstance(x, (tuple, list)) else flat.append(x)
    return flat


def flatten_ir_values(xs: Iterable[Any]) -> list[Any]:
    """Values, and tuples of them, as one list."""
    return _flattened(xs)


def flatten_ir_types(xs: Iterable[Any]) -> list[Any]:
    """Types, and tuples of them, as one list."""
    return _flattened(xs)


def unflatten_ir_values_like_types(xs: Iterable[Any], ys: Sequence[Any]) -> list[Any]:
    """A list of values in the form of types: a tuple where there is a tuple of types.

    >>> unflatten_ir_values_like_types([1, 2, 3], ["a", ("b", "c")])
    [1, (2, 3)]
    """
    values = iter(xs)
    found = [
        tuple(next(values) for _ in y) if isinstance(y, (tuple, list)) else next(values) for y in ys
    ]
    rest = list(values)
    if rest:
        raise ValueError(f"{len(rest)} values more than types")
    return found


class TokenSet:
    """A token for each effect, in order; updates make another set."""

    def __init__(self, tokens: Mapping[Any, Any] | None = None) -> None:
        self._tokens = dict(tokens or {})

    @staticmethod
    def create(effects: Sequence[Any]) -> TokenSet:
        """A set with an empty place for each effect."""
        return TokenSet(dict.fromkeys(effects))

    def __len__(self) -> int:
        return len(self._tokens)

    def get(self, effect: Any) -> Any:
        return self._tokens[effect]

    def items(self) -> Iterator[tuple[Any, Any]]:
        return iter(self._tokens.items())

    def effects(self) -> set[Any]:
        return set(self._tokens)

    def subset(self, effects: Iterable[Any]) -> TokenSet:
        return TokenSet({effect: self._tokens[effect] for effect in effects})

    def update_tokens(self, tokens: TokenSet) -> TokenSet:
        unknown = tokens.effects() - self.effects()
        if unknown:
            raise ValueError(f"tokens of effects that the set lacks: {unknown}")
        return TokenSet({**self._tokens, **tokens._tokens})


# -- records ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SPMDAxisContext:
    """A mesh, and which of its axes are manual where a rule lowers."""

    mesh: Any
    manual_axes: frozenset[Any] = frozenset()


@dataclass(frozen=True)
class ShardingContext:
    """How many devices a program is for."""

    num_devices: int
    device_assignment: tuple[Any, ...] | None = None
    abstract_mesh: Any = None


AxisContext = SPMDAxisContext | ShardingContext


@dataclass(frozen=True)
class LoweringParameters:
    """What a lowering was asked for."""

    override_lowering_rules: tuple[Any, ...] | None = None
    global_constant_computation: bool = False
    for_export: bool = False
    export_ignore_forward_compatibility: bool = False
    hoist_constants_as_args: bool = False


@dataclass(frozen=True)
class ShapePolyLoweringState:
    """Names of dimension variables, and platforms that a program is lowered for."""

    dim_vars: tuple[str, ...]
    lowering_platforms: tuple[str, ...] | None


class LoweringResult(NamedTuple):
    """A lowered module with what must live as long."""

    module: Any
    keepalive: Any
    host_callbacks: list[Any]
    shape_poly_state: ShapePolyLoweringState


class ConstantHandler(Protocol):
    """What makes a constant of a Python value."""

    def __call__(self, val: Any, aval: Any) -> Any: ...


# Channel types of StableHLO's sends and receives.
DEVICE_TO_DEVICE_TYPE = 1
SEND_TO_HOST_TYPE = 2
RECV_FROM_HOST_TYPE = 3


# -- what needs objects of MLIR --------------------------------------------------------------------


def _needs_objects(name: str, instead: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        fail(
            NotImplementedError,
            f"mlir.{name} builds objects of MLIR, which pyjax does not have.",
            "Lowering rules add instructions of HLO; programs are printed as StableHLO.",
            instead,
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Raises NotImplementedError: no objects of MLIR here. {instead}"
    return function


emit_python_callback = _needs_objects(
    "emit_python_callback",
    "Lower by mlir.lower_fun(lambda *xs: jax.pure_callback(f, shapes, *xs)), or io_callback.",
)
ir_constant = _needs_objects("ir_constant", "Use ctx.builder.constant(value) in the rule.")
ir_constants = _needs_objects("ir_constants", "Use ctx.builder.constant(value) in the rule.")
register_constant_handler = _needs_objects(
    "register_constant_handler",
    "Give the class __jax_array__, or register it as a pytree node.",
)
merge_mlir_modules = _needs_objects(
    "merge_mlir_modules", "Call the functions of both programs in one function, and lower that."
)
module_to_bytecode = _needs_objects(
    "module_to_bytecode", "Use jax.export.export(f)(...).serialize(), or text: str(module)."
)
lower_jaxpr_to_module = _needs_objects(
    "lower_jaxpr_to_module",
    "Use jax.jit(jax.core.jaxpr_as_fun(jaxpr)).lower(*avals).compiler_ir('stablehlo').",
)
lower_jaxpr_to_fun = _needs_objects(
    "lower_jaxpr_to_fun", "Use ctx.call(jaxpr, name, *operands) in the rule."
)


def module_to_string(module: Any, enable_debug_info: bool | None = None) -> str:
    """The text of a module."""
    return str(module)


def shape_tensor(ctx: Any, sizes: Sequence[Any]) -> Any:
    """A constant int32 array of static sizes, in a rule's program.

    Raises:
      TypeError: a size is not known when the program is made.
    """
    if not all(isinstance(n, (int, np.integer)) for n in sizes):
        raise TypeError(f"shape_tensor takes static sizes, got {list(sizes)}")
    return ctx.builder.constant(np.asarray(sizes, np.int32))


def core_call_lowering(
    ctx: Any, *args: Any, name: str, backend: Any = None, call_jaxpr: Any
) -> list[Any]:
    """The lowering of a primitive that calls a program: a call of its computation."""
    return list(ctx.call(call_jaxpr, name, *args))


def jaxpr_subcomp(
    ctx: Any,
    jaxpr: Any,
    name_stack: Any,
    tokens: TokenSet,
    consts_for_constvars: Sequence[Any],
    *args: Any,
    dim_var_values: Sequence[Any] = (),
    const_lowering: Any = None,
    outer_traceback: Any = None,
) -> tuple[list[Any], TokenSet]:
    """A program's instructions, added where a rule lowers; `jaxpr` is closed, or has no constants.

    Raises:
      ValueError: a jaxpr with constants.
    """
    if consts_for_constvars:
        raise ValueError(
            "jaxpr_subcomp takes programs without constants here: pass a ClosedJaxpr, which holds "
            "its own, or make them arguments."
        )
    closed = jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr)
    return list(ctx.inline_jaxpr(closed, *args)), tokens
