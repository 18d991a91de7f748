"""Calls from compiled programs back into Python: pure_callback, io_callback, debug_callback.

Each becomes an HLO custom call to one target; which Python function runs is told by the call's
configuration, a string that carries the function and so keeps it alive with the program.
"""

from __future__ import annotations

import itertools
import traceback
import types
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from pyjax.core import dtypes
from pyjax.core.avals import ShapedArray, is_valid_value
from pyjax.core.effects import (
    Effect,
    debug_effect,
    io_effect,
    ordered_debug_effect,
    ordered_io_effect,
)
from pyjax.core.errors import JaxRuntimeError, fail
from pyjax.core.exact_keys import exact_key
from pyjax.core.primitive import Primitive
from pyjax.core.trace import eval_trace, state
from pyjax.core.traceback_filter import api_boundary, user_entries
from pyjax.core.tree_util import tree_flatten, tree_unflatten
from pyjax.interpreters.batching import broadcast_bdim, move_bdim, not_mapped, over_devices
from pyjax.interpreters.hlo import aval_to_shape
from pyjax.interpreters.rules import FullJvp, Unsupported, define_primitive
from pyjax.lax.common import aval_of
from pyjax.lax.control_flow.loops import map as lax_map
from pyjax.lax.control_flow.tracing import require_callable
from pyjax.runtime.array import array_from_host
from pyjax.runtime.dispatch import as_operand
from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.process.bounded_cache import InternTable
from xla_backend.runtime.client import ExecutionContext
from xla_backend.runtime.custom_calls import register_custom_call
from xla_backend.spmd.custom import ForEachPart

CALLBACK_TARGET = "pyjax_python_callback"
_numbers = itertools.count(1)
# As long as a program holds one; an address belongs to the callback that it holds.
_flat_callbacks: InternTable[Any, FlatCallback] = InternTable()


class FlatCallback:
    """A Python function of flat arrays, as a parameter of a primitive: equal by identity, and so
    are programs that call it. What is called outside of `jit` again and again must be one object.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name = name
        self.function = function
        self.number = next(_numbers)

    def with_function(self, function: Callable[..., Any]) -> FlatCallback:
        """Another function in place of this one, under its number."""
        made = FlatCallback(self.name, function)
        made.number = self.number
        return made

    def __repr__(self) -> str:
        return f"<callback {self.name}>"


class _CallbackConfig(str):
    """The backend configuration of a custom call; holds on to what it calls."""

    callback: FlatCallback


class _PartsConfig(_CallbackConfig, ForEachPart):
    """That of a call which each device makes for its parts."""


def _run(
    operands: list[np.ndarray],
    results: list[np.ndarray],
    attributes: Any,
    context: ExecutionContext,
) -> None:
    callback: FlatCallback = attributes.backend_config.callback
    # The memory is the program's: what the function keeps must be copies.
    arrays = [array_from_host(np.array(x), ShapedArray(x.shape, x.dtype)) for x in operands]
    outs = [np.asarray(x) for x in callback.function(*arrays)]
    if len(outs) != len(results):
        _fail_result(callback, f"{len(outs)} arrays", f"{len(results)} were")
    for number, (result, out) in enumerate(zip(results, outs)):
        got = ShapedArray(out.shape, dtypes.canonicalize_dtype(out.dtype))
        declared = ShapedArray(result.shape, result.dtype)
        if got != declared:
            _fail_result(
                callback, f"{got.str_short()} as value {number}", f"{declared.str_short()} was"
            )
        result[...] = out


def _fail_result(callback: FlatCallback, got: str, declared: str) -> NoReturn:
    fail(
        JaxRuntimeError,
        f"RuntimeError: the callback {callback.name} returned {got}, but {declared} declared.",
        "The program was compiled for the declared number, shapes and dtypes of results.",
        "Declare what the function returns in result_shape_dtypes, or convert its results: "
        "np.asarray(x, dtype).",
    )


def call_of_program(name: str, callback: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a user's function for a program."""
    try:
        return callback(*args, **kwargs)
    except JaxRuntimeError:
        raise
    except Exception as error:
        raise _callback_failed(name, error) from error


def _callback_failed(name: str, error: Exception) -> JaxRuntimeError:
    """What a program raises whose callback raised `error`. Libraries look for `Type: message` in
    its text, and people for the line."""
    frames = user_entries(error.__traceback__)
    trace = "".join(
        f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}\n'
        for frame in traceback.extract_tb(frames)
    )
    return JaxRuntimeError(
        f"INTERNAL: the callback {name} of a program raised an exception: Traceback "
        f"(most recent call last):\n{trace}{type(error).__name__}: {error}",
    )


register_custom_call(CALLBACK_TARGET, _run, replace=True)


def lower_callback(
    ctx: Any,
    operands: Sequence[Any],
    callback: FlatCallback,
    pure: bool,
    target: str = CALLBACK_TARGET,
    partitioned: bool = False,
) -> Any:
    """A call of a function by the custom call `target`; its results. `partitioned`: each of several
    devices makes it for its parts."""
    config = (_PartsConfig if partitioned else _CallbackConfig)(str(callback.number))
    config.callback = callback
    shape = Shape.tuple([aval_to_shape(a) for a in ctx.avals_out])
    attributes = CustomCallAttributes(target, config, has_side_effect=not pure)
    call = ctx.builder.add(Opcode.CUSTOM_CALL, operands, attributes, shape=shape)
    ctx.module.by_each_device(call)
    return [ctx.builder.get_tuple_element(call, i) for i in range(len(shape.tuple_shapes))]


def no_jvp(what: str, advice: str) -> FullJvp:
    """The rule of callbacks: an error."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        fail(
            ValueError,
            f"{what} do not support JVP. {advice}",
            "nothing is known about the derivative of a Python function.",
            "wrap the call in jax.custom_jvp or jax.custom_vjp, or apply lax.stop_gradient to its "
            "arguments.",
        )

    return FullJvp(jvp)


def one_by_one(
    primitive: Primitive, axis_size: int, args: Sequence[Any], dims: Sequence[Any], **params: Any
) -> list[Any]:
    """One call for each example, in a loop; results are batched at 0."""
    mapped = [move_bdim(x, d, 0) for x, d in zip(args, dims) if d is not not_mapped]

    def one(slices: list[Any]) -> list[Any]:
        found = iter(slices)
        return primitive.bind_all(
            *[x if d is not_mapped else next(found) for x, d in zip(args, dims)], **params
        )

    return lax_map(one, mapped)


# -- pure_callback ---------------------------------------------------------------------------------

VMAP_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all")


def batched_by_method(
    primitive: Primitive,
    name: str,
    axis_size: int,
    args: Sequence[Any],
    dims: Sequence[Any],
    *,
    result_avals: tuple[Any, ...],
    vmap_method: str | None,
    **params: Any,
) -> Any:
    """The batching rule of a primitive whose `vmap_method` says what it is."""
    if vmap_method is None and over_devices.value:
        vmap_method = "sequential"  # each device calls the function for itself
    if vmap_method is None:
        fail(
            NotImplementedError,
            f"vmap is only supported for {name} when `vmap_method` is specified.",
            "it is not known whether the function takes batches.",
            f"pass vmap_method, one of {', '.join(VMAP_METHODS)}.",
        )
    params |= {"result_avals": result_avals, "vmap_method": vmap_method}
    if vmap_method.startswith("sequential"):
        outs = one_by_one(primitive, axis_size, args, dims, **params)
        return outs, [0] * len(outs)
    moved = [
        unmapped(x, vmap_method, axis_size) if d is not_mapped else move_bdim(x, d, 0)
        for x, d in zip(args, dims)
    ]
    params["result_avals"] = tuple(a.with_dim(0, axis_size) for a in result_avals)
    outs = primitive.bind_all(*moved, **params)
    return outs, [0] * len(outs)


def unmapped(x: Any, vmap_method: str, axis_size: int) -> Any:
    """An operand that is not mapped, as a function that takes batches gets it."""
    if vmap_method == "legacy_vectorized":
        return x
    return broadcast_bdim(x, axis_size if vmap_method == "broadcast_all" else 1, 0)


pure_callback_p: Primitive = define_primitive(
    "pure_callback",
    multiple_results=True,
    abstract_eval=lambda *avals, result_avals, **params: list(result_avals),
    jvp=no_jvp(
        "Pure callbacks", "Please use `jax.custom_jvp` to use callbacks while taking gradients."
    ),
    transpose=Unsupported("a callback is not linear"),
    batching=lambda *args, **params: batched_by_method(
        pure_callback_p, "pure_callback", *args, **params
    ),
    lowering=lambda ctx, *operands, callback, **params: lower_callback(
        ctx, operands, callback, pure=True
    ),
)


def _flat(name: str, callback: Callable[..., Any], in_tree: Any) -> FlatCallback:
    name = getattr(callback, "__name__", name)

    def function(*leaves: Any) -> Sequence[Any]:
        args, kwargs = tree_unflatten(in_tree, leaves)
        return tree_flatten(call_of_program(name, callback, args, kwargs))[0]

    return one_per_callback(FlatCallback(name, function), callback, in_tree)


def one_per_callback(made: FlatCallback, callback: Any, *made_from: Any) -> FlatCallback:
    """The object that is there for this very callback, or bound method, and equal data; else
    `made`, which holds the callback."""
    if type(callback) is types.MethodType:
        identity: tuple[int, ...] = (id(callback.__self__), id(callback.__func__))
    else:
        identity = (id(callback),)
    return _flat_callbacks.intern((identity, *map(exact_key, made_from)), made)


def declared_avals(declared: Any) -> tuple[tuple[Any, ...], Any]:
    """Types of the results that a callback is declared to have, and their tree."""
    leaves, tree = tree_flatten(declared)
    return tuple(_declared_aval(x) for x in leaves), tree


def _declared_aval(declared: Any) -> ShapedArray:
    if not (hasattr(declared, "shape") and hasattr(declared, "dtype")):
        return aval_of(declared).strip_weak_type()
    dtype = np.dtype(declared.dtype)
    if dtypes.canonicalize_dtype(dtype) != dtype:
        fail(
            ValueError,
            f"result_shape_dtypes cannot specify {dtype} when `jax_enable_x64` is disabled.",
            "The function would be asked for numbers of 64 bits, and get 32 of them through.",
            f"Declare {dtypes.canonicalize_dtype(dtype)}, or enable 64 bits.",
        )
    return ShapedArray(tuple(declared.shape), dtype)


@api_boundary
def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Call a Python function without side effects from a compiled program.

    The call may be removed, repeated or reordered.

    Args:
      callback: gets arrays, returns arrays of the declared shapes.
      result_shape_dtypes: pytree of anything with `.shape` and `.dtype`.
      vmap_method: what vmap does: "sequential" (one call per example), "expand_dims" (one call,
        arguments that are not batched get size 1), "broadcast_all" (they are repeated) or
        "legacy_vectorized" (they stay as they are).
    Raises:
      ValueError: unknown vmap_method, or differentiated.

    >>> pyjax.jit(lambda x: pyjax.pure_callback(lambda x: x + 1, x, x))(jnp.int32(3))
    Array(4, dtype=int32)
    """
    require_callable("pure_callback: callback", callback)
    if vmap_method is not None and vmap_method not in (*VMAP_METHODS, "legacy_vectorized"):
        fail(
            ValueError,
            f"vmap_method must be one of {VMAP_METHODS}, but got: {vmap_method}",
        )
    leaves, in_tree = tree_flatten((args, kwargs))
    avals, out_tree = declared_avals(result_shape_dtypes)
    outs = pure_callback_p.bind(
        *leaves,
        callback=_flat("pure_callback", callback, in_tree),
        result_avals=avals,
        sharding=sharding,
        vmap_method=vmap_method,
    )
    return tree_unflatten(out_tree, outs)


# -- io_callback -----------------------------------------------------------------------------------


def _io_batching(axis_size: int, args: Any, dims: Any, *, ordered: bool, **params: Any) -> Any:
    if ordered:
        fail(
            ValueError,
            "Cannot `vmap` ordered IO callback.",
            "the examples of a batch have no order.",
            "use ordered=False.",
        )
    outs = one_by_one(io_callback_p, axis_size, args, dims, ordered=ordered, **params)
    return outs, [0] * len(outs)


io_callback_p = define_primitive(
    "io_callback",
    multiple_results=True,
    abstract_eval=lambda *avals, result_avals, **params: list(result_avals),
    jvp=no_jvp(
        "IO callbacks", "Please use `jax.custom_jvp` to use callbacks while taking gradients."
    ),
    transpose=Unsupported("a callback is not linear"),
    batching=_io_batching,
    lowering=lambda ctx, *operands, callback, **params: lower_callback(
        ctx, operands, callback, pure=False
    ),
    effects=lambda *avals, ordered, **params: frozenset(
        [ordered_io_effect if ordered else io_effect]
    ),
)


@api_boundary
def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a Python function with side effects from a compiled program, exactly once.

    Args are those of pure_callback; `ordered` keeps the order of such calls.
    Raises:
      ValueError: differentiated, or vmap of an ordered call.

    >>> written = []
    >>> pyjax.experimental.io_callback(lambda x: written.append(x.item()), None, jnp.float32(2))
    >>> pyjax.effects_barrier()
    >>> written
    [2.0]
    """
    require_callable("io_callback: callback", callback)
    leaves, in_tree = tree_flatten((args, kwargs))
    avals, out_tree = declared_avals(result_shape_dtypes)
    outs = io_callback_p.bind(
        *leaves,
        callback=_flat("io_callback", callback, in_tree),
        result_avals=avals,
        sharding=sharding,
        ordered=bool(ordered),
    )
    return tree_unflatten(out_tree, outs)


# -- debug_callback --------------------------------------------------------------------------------


def _debug_batching(axis_size: int, args: Any, dims: Any, **params: Any) -> Any:
    one_by_one(debug_callback_p, axis_size, args, dims, **params)
    return [], []


def _debug_jvp(primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
    return debug_callback_p.bind(*primals, **params), []


def _debug_transpose(cts: Any, *args: Any, **params: Any) -> list[Any]:
    fail(
        ValueError,
        "Transpose doesn't support debugging callbacks.",
        "the value to show belongs to a linear program that only runs backwards.",
        "print inside the function that is differentiated.",
    )


debug_callback_p = define_primitive(
    "debug_callback",
    multiple_results=True,
    abstract_eval=lambda *avals, **params: [],
    jvp=FullJvp(_debug_jvp),
    transpose=_debug_transpose,
    batching=_debug_batching,
    lowering=lambda ctx, *operands, callback, partitioned, **params: lower_callback(
        ctx, operands, callback, pure=False, partitioned=partitioned
    ),
    effects=lambda *avals, effect, **params: frozenset([effect]),
)


@api_boundary
def debug_callback(
    callback: Callable[..., None],
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> None:
    """Call a Python function for its side effect, for debugging.

    Under grad it sees the primals; under vmap it is called for each example. Arguments that are no
    arrays reach it as they are. `partitioned`: each of the devices of a program calls it with its
    parts.
    """
    require_callable("debug_callback: callback", callback)
    leaves, in_tree = tree_flatten((args, kwargs))
    name = getattr(callback, "__name__", "debug_callback")

    def arguments(values: Sequence[Any]) -> Any:
        given = iter(values)
        return tree_unflatten(in_tree, [next(given) if is_valid_value(x) else x for x in leaves])

    def function(*values: Any) -> Sequence[Any]:
        call_of_program(name, callback, *arguments(values))
        return []

    arrays = [x for x in leaves if is_valid_value(x)]
    if state.traces[0] is eval_trace:  # no program, and exceptions are the function's own
        args, kwargs = arguments([as_operand(x) for x in arrays])
        callback(*args, **kwargs)
        return
    effect: Effect = ordered_debug_effect if ordered else debug_effect
    flat = FlatCallback(name, function)
    debug_callback_p.bind(*arrays, callback=flat, effect=effect, partitioned=bool(partitioned))


@api_boundary
def debug_print(
    fmt: str,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    _show: Callable[[str], None] | None = None,
    **kwargs: Any,
) -> None:
    """Print `fmt.format(*args, **kwargs)` with the values of traced arguments at run time; or give
    the text to `_show`."""
    options = np.get_printoptions()

    def show(*values: Any, **named: Any) -> None:
        with np.printoptions(**options):
            text = fmt.format(*values, **named)
        if _show is None:
            print(text)
        else:
            _show(text)

    debug_callback(show, *args, ordered=ordered, partitioned=partitioned, **kwargs)
