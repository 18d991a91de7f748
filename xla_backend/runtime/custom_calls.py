"""Custom calls that run in Python on the host: the registry, and the trampoline that native code
calls.

A target is a function `fn(operands, results, attributes, context)` on NumPy arrays over the
program's own memory: it reads `operands` and writes into `results`. `context` is the
ExecutionContext of the execution that calls: device, participant and run. An exception that it
raises is kept and raised by whoever ran the program.
(The native side is `targets.cpu.routines.python_calls`.)
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from xla_backend.hlo.check_calls import CHECK_CALLS
from xla_backend.hlo.shape import Shape
from xla_backend.runtime.client import ExecutionContext

HostFunction = Callable[[list[np.ndarray], list[np.ndarray], Any, ExecutionContext], None]


def _copy(
    operands: list[np.ndarray],
    results: list[np.ndarray],
    attributes: Any,
    context: ExecutionContext,
) -> None:
    """A constraint on where a value is: the value."""
    results[0][...] = operands[0]


_targets: dict[str, HostFunction] = {**CHECK_CALLS, "Sharding": _copy}
_calls: dict[int, tuple[Any, HostFunction, list[Shape], list[Shape], Any]] = {}
_numbers = itertools.count(1)
# What native code kept for a thread, by its number: a host function's exception, or a signal
# handler's.
pending_exceptions: dict[int, BaseException] = {}


def register_custom_call(target: str, function: HostFunction, *, replace: bool = False) -> None:
    """Make `function` run custom calls named `target`.

    Raises:
      ValueError: the target has another function (pass `replace=True` to change it).
    """
    if replace:
        _targets[target] = function
    elif _targets.setdefault(target, function) is not function:
        raise ValueError(
            f"custom call target {target!r} is already registered; pass replace=True to replace it"
        )


def find_custom_call(target: str) -> HostFunction | None:
    """The function of a target, or None."""
    return _targets.get(target)


def has_custom_call(target: str) -> bool:
    """Whether somebody registered a function for a target."""
    return target in _targets


def custom_calls_in(context: ExecutionContext) -> Mapping[str, Callable[..., None]]:
    """All targets with what the evaluator calls for them: their functions in this context."""
    return {target: partial(_call_in, context, function) for target, function in _targets.items()}


def _call_in(
    context: ExecutionContext,
    function: HostFunction,
    operands: list[np.ndarray],
    results: list[np.ndarray],
    attributes: Any,
) -> None:
    function(operands, results, attributes, context)


class HostCall:
    """A call that native code makes by passing `number`, which a symbol of it is bound to, to the
    trampoline. Whoever owns the code owns this object: with it the number is forgotten."""

    __slots__ = ("__weakref__", "number")

    def __init__(
        self,
        function: HostFunction,
        operands: Sequence[Shape],
        results: Sequence[Shape],
        attributes: Any,
    ) -> None:
        self.number = next(_numbers)
        # Called as pop(number, reference). A function in Python might be interrupted there.
        forget = weakref.ref(self, partial(_calls.pop, self.number))
        _calls[self.number] = (forget, function, list(operands), list(results), attributes)


def take_pending_exception() -> BaseException | None:
    """What ended the last program of this thread, once."""
    return pending_exceptions.pop(threading.get_ident(), None)


def _view(address: int, shape: Shape) -> np.ndarray:
    dtype = shape.element_type.numpy_dtype
    if shape.byte_size == 0:
        return np.empty(shape.dimensions, dtype)
    raw = (ctypes.c_uint8 * shape.byte_size).from_address(address)
    return np.ctypeslib.as_array(raw).view(dtype).reshape(shape.dimensions)


def host_call(number: int, buffers: int, context: ExecutionContext) -> None:
    """Run a host call whose operands and results lie at the addresses that `buffers` points to."""
    _, function, operand_shapes, result_shapes, attributes = _calls[number]
    count = len(operand_shapes) + len(result_shapes)
    addresses: Any = (ctypes.c_void_p * count).from_address(buffers) if count else []
    arrays = [
        _view(address or 0, shape)
        for address, shape in zip(addresses, [*operand_shapes, *result_shapes])
    ]
    operands = arrays[: len(operand_shapes)]
    for array in operands:
        array.flags.writeable = False
    function(operands, arrays[len(operand_shapes) :], attributes, context)
