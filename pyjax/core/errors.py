"""Exception classes. Each message has four parts: what happened, where in the user's code, why,
the fix.

Public under `pyjax.errors`. Layer: core.
"""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from pyjax._config import options
from pyjax.core.source_info import user_frame, user_frames

_Kind = TypeVar("_Kind", bound=Exception)


class PyjaxError(Exception):
    """Base mixin of pyjax's own exceptions.

    Attributes:
      what: what happened, one sentence.
      where: the user's line (text), or None when it is not known.
      why: the reason.
      fix: what to write instead.
    """

    def __init__(
        self, what: Any = "", where: Any = None, why: str | None = None, fix: str | None = None
    ) -> None:
        self.what = str(what)
        self.where = str(where) if where else None
        self.why = why
        self.fix = fix
        super().__init__(four_parts(self.what, self.where, why, fix))


def four_parts(what: str, where: Any = None, why: str | None = None, fix: str | None = None) -> str:
    """The text of an error message from its parts; absent parts are left out."""
    lines = [what]
    for part in (where, why, fix):
        if part:
            lines.append("  " + str(part).replace("\n", "\n  "))
    return "\n".join(lines)


def new_error(
    kind: type[_Kind],
    what: str,
    why: str | None = None,
    fix: str | None = None,
    where: str | None = None,
) -> _Kind:
    """An exception of this kind, with the four parts.

    Args:
      where: the user's line, if it is not the one that is being executed.
    """
    if where is None:
        of_tracers = issubclass(kind, (JAXTypeError, JAXIndexError))
        most = options.tracer_error_num_traceback_frames.value
        where = user_frames(most) if of_tracers else user_frame()
    parts = (what, where, why, fix)
    return kind(*parts) if issubclass(kind, PyjaxError) else kind(four_parts(*parts))


def fail(
    kind: type[Exception], what: str, why: str | None = None, fix: str | None = None
) -> NoReturn:
    """Raise `new_error(kind, what, why, fix)`."""
    raise new_error(kind, what, why, fix)


class AxisError(PyjaxError, ValueError, IndexError):
    """An axis that the array does not have. Both a ValueError and an IndexError, as NumPy's is."""


class JAXTypeError(PyjaxError, TypeError):
    """Base of type errors about traced values."""


class JAXIndexError(PyjaxError, IndexError):
    """Base of index errors about traced values."""


class ConcretizationTypeError(JAXTypeError):
    """A traced value was used where a concrete one is needed.

    Under jit, vmap or grad-of-jit a value stands for many; shapes, `range(n)` bounds and dictionary
    keys must be known while tracing. Mark such arguments static, or use a lax control-flow
    function.
    """


class TracerBoolConversionError(ConcretizationTypeError):
    """`bool()` of a tracer: `if`, `while`, `and`, `or`, `not`, `assert` on a traced value.

    Bad: `if x > 0: ...` inside a jitted function. Good: `jnp.where(x > 0, a, b)` or `lax.cond`.
    """


class TracerIntegerConversionError(JAXTypeError):
    """A tracer was used as a Python integer, for example as a list index or in `range`."""


class TracerArrayConversionError(JAXTypeError):
    """A NumPy function was called on a tracer. Use its `pyjax.numpy` counterpart."""


class NonConcreteBooleanIndexError(JAXIndexError):
    """Indexing by a traced boolean mask: the result's shape would depend on values."""


class UnexpectedTracerError(JAXTypeError):
    """A tracer escaped from the function in which it was created (a leaked tracer).

    Functions given to transformations must return every value they compute, not store it in a
    global, an attribute or an enclosing scope.
    """


class TracerLeakError(PyjaxError, Exception):
    """Found by the option `check_tracer_leaks`: a tracer outlived its trace."""


class TypePromotionError(PyjaxError, ValueError):
    """Two dtypes have no implicit common dtype; convert one of them with `.astype`."""


class KeyReuseError(JAXTypeError):
    """A random key was consumed twice (option `debug_key_reuse`)."""


class UnhashableStaticError(PyjaxError, ValueError):
    """A static argument cannot be hashed, so it cannot be part of a cache key."""


class OutOfBoundsError(PyjaxError, IndexError):
    """An index is out of bounds (option `error_checking_behavior_oob`)."""


class InconclusiveDimensionOperation(PyjaxError, Exception):
    """A comparison of symbolic sizes is not the same for all sizes that the constraints allow.

    Bad: `if x.shape[0] > 8: ...` while exporting for `b` rows.
    Good: the constraint `b >= 9` on the symbolic shape, or no such branch.
    """


class JaxprTypeError(PyjaxError, TypeError):
    """A jaxpr is ill-typed (found by `check_jaxpr`)."""


class InvalidInputException(PyjaxError, TypeError):
    """A value that is not an array, scalar or other valid type was passed to a transformation."""


class JaxRuntimeError(PyjaxError, RuntimeError):
    """The runtime failed while compiling or executing a program."""


class OutOfMemoryError(JaxRuntimeError, MemoryError):
    """There is no memory for an array: a JaxRuntimeError as in JAX, and a MemoryError as in Python.

    Bad: results that are kept in a list though nobody needs them. Good: `del`, or a jitted function
    that is given its argument's memory (`donate_argnums`).
    """
