"""Traces and tracers: the machinery by which a transformation intercepts primitives.

One current `Trace` (per thread) decides what `bind` does; a rule runs under the parent trace. The
arguments never pick the interpreter. Layer: core.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax.core.array import Array
from pyjax.core.errors import (
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
    fail,
    new_error,
)
from pyjax.core.primitive import Primitive
from pyjax.core.trace_state import (
    current_trace,
    entered,
    set_current_trace,
    start_with,
    state,
    under,
)

__all__ = [
    "EvalTrace",
    "Trace",
    "Tracer",
    "current_trace",
    "entered",
    "escaped_tracer_error",
    "eval_trace",
    "is_concrete",
    "not_concrete_error",
    "run_compiled",
    "set_current_trace",
    "set_eval_handler",
    "state",
    "to_concrete_value",
    "under",
]


class Trace:
    """Base of interpreters. A subclass implements `process_primitive`.

    The processing of functions (custom_jvp_call, custom_vjp_call) has methods of its own, since
    those bind Python functions rather than values; see api/custom_jvp.py.
    """

    is_eval = False
    # What it does, for those who ask (`core/trace_queries.py`).
    kind = ""
    # The trace under which this one's rules run; None for traces that record.
    parent: Trace | None = None

    @property
    def main(self) -> Trace:
        """The trace itself: libraries ask whose a tracer is by it."""
        return self

    def process_primitive(
        self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]
    ) -> list[Any]:
        raise NotImplementedError

    def process_custom_call(self, call: CustomCall, args: Sequence[Any]) -> list[Any]:
        """Results of a function with a derivative rule of its own; they may be tracers."""
        raise NotImplementedError

    def origin(self) -> str:
        """For messages: which transformation of which function."""
        return f"it is traced by {type(self).__name__}"

    def made_at(self, tracer: Tracer) -> Any:
        """The frame in which a tracer of this trace was made; None for arguments."""
        return None


class CustomCall:
    """A call of a function with a derivative rule of its own, on its way through the traces.

    Attributes:
      fun: the function of flat values.
      closed_over: the values that `fun` closes over, known only of a call that was recorded.
    """

    __slots__ = ()
    fun: Callable[..., list[Any]]
    closed_over: Sequence[Any]

    def stage(self, trace: Any, args: Sequence[Any]) -> list[Any]:
        """Record the call, rule and all, with a staging trace."""
        raise NotImplementedError

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Outputs and their tangents by the rule; tangents in and out may be Zero."""
        raise NotImplementedError

    def linearize(
        self, tape: Any, primals: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        """The same with tangents that a `partial_eval.PartialTrace` records, under its parent."""
        return tape.run(self.jvp, primals, tangents)

    def partial_eval(self, tape: Any, args: Sequence[Any]) -> list[Any]:
        """Results where some operands are known only to the program that `tape` records, which
        nobody differentiates: the rule has no say any more."""
        return self.fun(*args)

    def check_closed_over(self) -> None:
        """Called when `closed_over` is differentiated: raises if the rule would pass over it."""

    def batched(self, mapped: Any) -> CustomCall:
        """The call on batched values, its functions mapped by a `batching.MappedCall`."""
        raise NotImplementedError


class Tracer(Array):
    """A stand-in for an array inside a transformed function.

    Operators, methods and properties of arrays are installed by pyjax.numpy.array_methods.
    """

    __slots__ = ("__weakref__", "_trace", "aval")
    __array_priority__ = 1000
    aval: Any
    _trace: Trace

    def __init__(self, trace: Trace, aval: Any) -> None:
        self._trace = trace
        self.aval = aval

    # -- conversions to Python values -----------------------------------------------------------

    def to_concrete_value(self) -> Any:
        """The concrete array this tracer stands for, or None."""
        return None

    def __bool__(self) -> bool:
        value = to_concrete_value(self)
        if value is not None:
            return bool(value)
        if self.aval.size != 1:
            many = self.aval.size > 1
            why = "more than one element is ambiguous" if many else "no elements is undefined"
            raise new_error(
                ValueError,
                f"The truth value of an array with {why} (got {self.aval.str_short()}). "
                "Use a.any() or a.all()",
            )
        fail(
            TracerBoolConversionError,
            f"Attempted boolean conversion of traced array with shape {self.aval.str_short()}: "
            f"`if`, `while`, `and`, `or`, `not` need a concrete bool, got {self}.",
            self.origin(),
            "Use jnp.where(cond, a, b), jnp.logical_and/or/not or lax.cond(cond, f, g), "
            "lax.while_loop instead of `while`, or make the "
            "argument static (static_argnums, static_argnames).",
        )

    def _to_scalar(self, kind: type) -> Any:
        value = to_concrete_value(self)
        if value is not None:
            return kind(value)
        fail(
            ConcretizationTypeError,
            f"Abstract tracer value encountered where concrete value is expected: "
            f"`{kind.__name__}()` of {self}.",
            self.origin(),
            f"Keep it an array (x.astype({kind.__name__})), or make the argument static "
            "(static_argnums, static_argnames).",
        )

    def __int__(self) -> int:
        return self._to_scalar(int)

    def __float__(self) -> float:
        return self._differentiable_scalar(float)

    def __complex__(self) -> complex:
        return self._differentiable_scalar(complex)

    def _differentiable_scalar(self, kind: type) -> Any:
        """No number, also if the value is known: what is computed from it would have no
        derivative."""
        if to_concrete_value(self) is None:
            return self._to_scalar(kind)
        fail(
            ConcretizationTypeError,
            f"Abstract tracer value encountered where concrete value is expected: "
            f"`{kind.__name__}()` of {self}.",
            f"{self.origin()}; what is computed from a Python number has no derivative.",
            f"Keep it an array (x.astype({kind.__name__}), pyjax.numpy in place of math), or write "
            "x.item() for the number itself.",
        )

    def __index__(self) -> int:
        value = to_concrete_value(self)
        if value is not None:
            return value.__index__()
        fail(
            TracerIntegerConversionError,
            "The __index__() method was called on traced array with shape "
            f"{self.aval.str_short()}: a Python integer is needed (a list index, `range`, a "
            f"shape), got {self}.",
            self.origin(),
            "Index a jnp array instead of a list, use lax.fori_loop instead of range, or make "
            "the argument static (static_argnums, static_argnames).",
        )

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        # Also if the value is known: what is computed from it would have no derivative.
        fail(
            TracerArrayConversionError,
            "The numpy.ndarray conversion method __array__() was called on traced array with "
            f"shape {self.aval.str_short()}: {self}.",
            self.origin(),
            "Call the pyjax.numpy function instead of NumPy's, or do this part of the work "
            "outside the transformed function (pure_callback).",
        )

    def __hash__(self) -> int:
        raise new_error(
            TypeError,
            f"unhashable type: {type(self).__name__} ({self.aval.str_short()}). A traced array "
            "cannot be a dictionary key, a set element or a static argument.",
            self.origin(),
            "Index an array by it, or use lax.switch.",
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        value = to_concrete_value(self)
        if value is not None:
            return value.__reduce_ex__(protocol)
        raise not_concrete_error(
            self,
            "It is to be pickled.",
            "Pickle what the transformed function returns, or call pyjax.debug.callback.",
        )

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def item(self, *args: Any) -> Any:
        """The Python scalar of a concrete one-element array; an error for traced values."""
        value = to_concrete_value(self)
        if value is not None:
            return np.asarray(value).item(*args)
        return self._to_scalar(
            complex
            if self.aval.dtype.kind == "c"
            else int
            if self.aval.dtype.kind in "iu"
            else float
        )

    def tolist(self) -> Any:
        return self._differentiable_scalar(float)

    def block_until_ready(self) -> Any:
        return self

    def copy_to_host_async(self) -> None:
        return None

    # -- text -----------------------------------------------------------------------------------

    def origin(self) -> str:
        """For messages: where this tracer comes from."""
        return self._trace.origin()

    def _description(self) -> str:
        return ""

    def __repr__(self) -> str:
        kind = type(self).__name__
        return f"{kind}<{self.aval.str_short(short_dtypes=False)}>{self._description()}"

    def __format__(self, spec: str) -> str:
        value = to_concrete_value(self)
        if value is not None and spec:
            return format(value, spec)
        if spec:
            fail(
                TypeError,
                f"unsupported format string {spec!r} for a traced array: "
                f"{type(self).__name__}.__format__ of {self.aval.str_short()}",
                self.origin(),
                "Use pyjax.debug.print('{x:.3f}', x=x), which prints when the program runs.",
            )
        return repr(self)


def to_concrete_value(x: Any) -> Any:
    """The concrete value behind a tracer (jvp of eager values, say); None if there is none."""
    while isinstance(x, Tracer):
        inner = x.to_concrete_value()
        if inner is None:
            return None
        x = inner
    return x


def is_concrete(x: Any) -> bool:
    """Whether Python control flow may use the value of `x`."""
    return to_concrete_value(x) is not None


# -- plain execution ------------------------------------------------------------------------------

_EvalHandler = Callable[[Primitive, tuple[Any, ...], dict[str, Any]], list[Any]]


def _no_handler(primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> list[Any]:
    raise new_error(
        RuntimeError,
        f"cannot execute {primitive}: no eval handler is installed (import pyjax, not pyjax.core)",
    )


_eval_handler: _EvalHandler = _no_handler


def set_eval_handler(handler: _EvalHandler) -> None:
    """Install what executes primitives eagerly: `handler(primitive, args, params) -> list`."""
    global _eval_handler
    _eval_handler = handler


def run_compiled(primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> list[Any]:
    """Results of a primitive on values by a program made for it, whatever its `impl` is."""
    return _eval_handler(primitive, args, params)


class EvalTrace(Trace):
    """Plain execution: a primitive's own `impl`, or the compiled path of dispatch."""

    is_eval = True

    def process_primitive(
        self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]
    ) -> list[Any]:
        for x in args:
            if isinstance(x, Tracer):
                raise escaped_tracer_error(x)
        if primitive.impl is not None:
            found = primitive.impl(*args, **params)
            return list(found) if primitive.multiple_results else [found]
        return _eval_handler(primitive, args, params)

    def process_custom_call(self, call: CustomCall, args: Sequence[Any]) -> list[Any]:
        return call.fun(*args)

    def origin(self) -> str:
        return "it is executed eagerly"


eval_trace = EvalTrace()
start_with(eval_trace)


def not_concrete_error(tracer: Tracer, use: str, fix: str) -> ConcretizationTypeError:
    """The error for a tracer where Python needs a value; `use` says for what, `fix` what to do."""
    return new_error(
        ConcretizationTypeError,
        f"Abstract tracer value encountered where concrete value is expected: traced array with "
        f"shape {tracer.aval.str_short()}. {use}",
        tracer.origin(),
        fix,
    )


def escaped_tracer_error(tracer: Tracer) -> UnexpectedTracerError:
    """The error for a tracer that is used outside the transformation that made it."""
    return new_error(
        UnexpectedTracerError,
        f"Encountered an unexpected tracer: {tracer!r}. A traced value escaped (leaked) from the "
        "function in which it was created.",
        f"{tracer.origin()}; that transformation is over, or does not enclose this use.",
        "Return the value from the transformed function instead of storing it in a global, an "
        "attribute or an enclosing scope. The option check_tracer_leaks finds who holds it.",
    )
