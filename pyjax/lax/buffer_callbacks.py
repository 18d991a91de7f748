"""Calls from programs into Python functions that write their results where the program wants them.

As `callbacks.py`, whose functions get arrays and return arrays; these get the program's memory.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np

from pyjax.core.effects import io_effect, no_effects
from pyjax.core.errors import fail
from pyjax.core.primitive import Primitive
from pyjax.core.tree_util import PyTreeDef, tree_flatten, tree_unflatten
from pyjax.interpreters.rules import Unsupported, define_primitive
from pyjax.lax.callbacks import (
    VMAP_METHODS,
    FlatCallback,
    batched_by_method,
    call_of_program,
    declared_avals,
    lower_callback,
    no_jvp,
    one_per_callback,
)
from pyjax.lax.common import aval_of
from pyjax.lax.control_flow.tracing import require_callable
from xla_backend.runtime.client import ExecutionContext as RunContext
from xla_backend.runtime.custom_calls import register_custom_call

BUFFER_TARGET = "pyjax_python_buffer_callback"


class ExecutionStage(enum.Enum):
    """When a callback is called. Programs call theirs while they run: EXECUTE.

    >>> ExecutionStage.EXECUTE.name
    'EXECUTE'
    """

    INSTANTIATE = 0
    PREPARE = 1
    INITIALIZE = 2
    EXECUTE = 3


class ExecutionContext:
    """What a callback is told about the run.

    >>> ExecutionContext().stage
    <ExecutionStage.EXECUTE: 3>
    """

    @property
    def stage(self) -> ExecutionStage:
        return ExecutionStage.EXECUTE

    @property
    def stream(self) -> int:
        """Address of the stream of a GPU.

        Raises:
          NotImplementedError: always, as callbacks run on the host.
        """
        fail(
            NotImplementedError,
            "a buffer callback asked for its stream",
            "callbacks run on the host, on memory of the host: there is no stream",
            "read and write the buffers as NumPy arrays",
        )


class Buffer:
    """An array of a program, in memory of the host, as long as the callback runs.

    `np.asarray` and DLPack see the memory itself; that of arguments cannot be written.

    >>> buffer = Buffer(np.zeros(3), writeable=True)
    >>> np.asarray(buffer)[0] = 1.0
    >>> buffer.shape, buffer.dtype, buffer.writeable, np.asarray(buffer)[0].item()
    ((3,), dtype('float64'), True, 1.0)
    """

    def __init__(self, array: np.ndarray, writeable: bool) -> None:
        self._array = array.view()
        self._array.flags.writeable = writeable

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    @property
    def dtype(self) -> np.dtype:
        return self._array.dtype

    @property
    def ndim(self) -> int:
        return self._array.ndim

    @property
    def writeable(self) -> bool:
        return self._array.flags.writeable

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._array, dtype=dtype, copy=copy)

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self._array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


def _run(
    operands: list[np.ndarray], results: list[np.ndarray], attributes: Any, context: RunContext
) -> None:
    callback: FlatCallback = attributes.backend_config.callback
    callback.function(operands, results)


register_custom_call(BUFFER_TARGET, _run, replace=True)

buffer_callback_p: Primitive = define_primitive(
    "buffer_callback",
    multiple_results=True,
    abstract_eval=lambda *avals, result_avals, **params: list(result_avals),
    jvp=no_jvp(
        "Buffer callbacks", "Please use `jax.custom_jvp` to use callbacks while taking gradients."
    ),
    transpose=Unsupported("a callback is not linear"),
    batching=lambda *args, **params: batched_by_method(
        buffer_callback_p, "the buffer_callback primitive", *args, **params
    ),
    lowering=lambda ctx, *operands, callback, has_side_effect, **_: lower_callback(
        ctx, operands, callback, pure=not has_side_effect, target=BUFFER_TARGET
    ),
    effects=lambda *avals, has_side_effect, **params: (
        frozenset([io_effect]) if has_side_effect else no_effects
    ),
)


def _flat(
    name: str,
    callback: Callable[..., None],
    in_tree: PyTreeDef,
    out_tree: PyTreeDef,
    aliases: tuple[tuple[int, int], ...],
) -> FlatCallback:
    def function(operands: list[np.ndarray], results: list[np.ndarray]) -> None:
        for source, target in aliases:
            np.copyto(results[target], operands[source])
        out = tree_unflatten(out_tree, [Buffer(x, True) for x in results])
        args, kwargs = tree_unflatten(in_tree, [Buffer(x, False) for x in operands])
        returned = call_of_program(name, callback, (ExecutionContext(), out, *args), kwargs)
        if returned is not None:
            call_of_program(name, _refuse_result, (name, returned), {})

    return one_per_callback(FlatCallback(name, function), callback, in_tree, out_tree, aliases)


def _refuse_result(name: str, returned: Any) -> None:
    fail(
        ValueError,
        "buffer_callback callback must not return any values.",
        f"{name} returned {type(returned).__name__}; results are what it writes into its second "
        "argument",
        "write np.asarray(out)[...] = value, and return nothing",
    )


def _checked_aliases(
    aliases: dict[int, int] | None, operands: list[Any], results: tuple[Any, ...]
) -> tuple[tuple[int, int], ...]:
    found = []
    for source, target in sorted((aliases or {}).items()):
        what = f"input_output_aliases contains the mapping '{source}:{target}'"
        fix = "positions are those of the flattened arguments and results"
        for kind, number, count in (
            ("input", source, len(operands)),
            ("output", target, len(results)),
        ):
            if not 0 <= number < count:
                why = f"the {kind} index {number} is outside the range [0, {count})"
                fail(ValueError, what, why, fix)
        given, wanted = aval_of(operands[source]), results[target]
        if (given.shape, given.dtype) != (wanted.shape, wanted.dtype):
            why = (
                f"the input is {given.str_short()} and the output has a different abstract value, "
                f"{wanted.str_short()}"
            )
            fail(ValueError, what, why, "alias inputs and outputs of equal shape and dtype")
        found.append((int(source), int(target)))
    return tuple(found)


def buffer_callback(
    callback: Callable[..., None],
    result_shape_dtypes: object,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_output_aliases: dict[int, int] | None = None,
    command_buffer_compatible: bool = False,
) -> Callable[..., Any]:
    """A function that calls a Python function on buffers: that reads its arguments where they are,
    and writes its results where the program wants them, so that nothing is copied.

    On GPUs the buffers are in memory of the host; arguments and results are copied between.

    Args:
      callback: called as `callback(context, out, *args, **kwargs)`, with an ExecutionContext and
        pytrees of Buffers: `out` as `result_shape_dtypes`, to be written; the others as the
        arguments, to be read. It returns None. What is not written is undefined.
      result_shape_dtypes: pytree of anything with `.shape` and `.dtype`.
      has_side_effect: whether it is called where nobody uses its results, too.
      vmap_method: what vmap does, as for `pure_callback`.
      input_output_aliases: flat positions of arguments, and of the results that begin as copies of
        them.
      command_buffer_compatible: accepted for programs that say it; nothing is recorded here, as
        callbacks run on the host.
    Returns:
      A function of pytrees of arrays. It raises ValueError where aliases do not fit, and when it is
      differentiated; JaxRuntimeError where the callback raises or returns something.
    Raises:
      ValueError: unknown vmap_method.

    >>> def add_one(context, out, x):
    ...     np.asarray(out)[...] = np.asarray(x) + 1
    >>> x = jnp.int32(41)
    >>> pyjax.jit(buffer_callback(add_one, x))(x)
    Array(42, dtype=int32)
    """
    require_callable("buffer_callback: callback", callback)
    if vmap_method is not None and vmap_method not in (*VMAP_METHODS, "legacy_vectorized"):
        fail(ValueError, f"vmap_method must be one of {VMAP_METHODS}, but got: {vmap_method}")
    avals, out_tree = declared_avals(result_shape_dtypes)
    name = getattr(callback, "__name__", "buffer_callback")

    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, in_tree = tree_flatten((args, kwargs))
        aliases = _checked_aliases(input_output_aliases, leaves, avals)
        outs = buffer_callback_p.bind(
            *leaves,
            callback=_flat(name, callback, in_tree, out_tree, aliases),
            result_avals=avals,
            vmap_method=vmap_method,
            has_side_effect=has_side_effect,
            input_output_aliases=aliases,
            command_buffer_compatible=command_buffer_compatible,
        )
        return tree_unflatten(out_tree, outs)

    return call


__all__ = ["Buffer", "ExecutionContext", "ExecutionStage", "buffer_callback", "buffer_callback_p"]
