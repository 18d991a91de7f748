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

    >>> issubclass(AxisError, PyjaxError), issubclass(AxisError, ValueError)
    (True, True)
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
    """An axis that the array does not have. Both a ValueError and an IndexError, as NumPy's is.

    >>> try:
    ...     jnp.sum(jnp.ones(3), axis=2)
    ... except AxisError as error:
    ...     print(str(error).splitlines()[0])
    axis 2 is out of bounds for array of dimension 1
    """


class JAXTypeError(PyjaxError, TypeError):
    """Base of type errors about traced values.

    >>> issubclass(TracerBoolConversionError, JAXTypeError), issubclass(JAXTypeError, TypeError)
    (True, True)
    """


class JAXIndexError(PyjaxError, IndexError):
    """Base of index errors about traced values.

    >>> issubclass(NonConcreteBooleanIndexError, JAXIndexError)
    True
    """


class ConcretizationTypeError(JAXTypeError):
    """A traced value was used where a concrete one is needed.

    Under jit, vmap or grad-of-jit a value stands for many; shapes, `range(n)` bounds and dictionary
    keys must be known while tracing. Mark such arguments static, or use a lax control-flow
    function.

    >>> try:
    ...     pyjax.jit(lambda x: float(x))(1.0)
    ... except ConcretizationTypeError:
    ...     print("keep it an array")
    keep it an array
    """


class TracerBoolConversionError(ConcretizationTypeError):
    """`bool()` of a tracer: `if`, `while`, `and`, `or`, `not`, `assert` on a traced value.

    Bad: `if x > 0: ...` inside a jitted function. Good: `jnp.where(x > 0, a, b)` or `lax.cond`.

    >>> try:
    ...     pyjax.jit(lambda x: 1 if x > 0 else 2)(1.0)
    ... except TracerBoolConversionError:
    ...     print("use jnp.where or lax.cond")
    use jnp.where or lax.cond
    """


class TracerIntegerConversionError(JAXTypeError):
    """A tracer was used as a Python integer, for example as a list index or in `range`.

    >>> try:
    ...     pyjax.jit(lambda n: list(range(n)))(3)
    ... except TracerIntegerConversionError:
    ...     print("make n a static argument")
    make n a static argument
    """


class TracerArrayConversionError(JAXTypeError):
    """A NumPy function was called on a tracer. Use its `pyjax.numpy` counterpart.

    >>> try:
    ...     pyjax.jit(np.asarray)(1.0)
    ... except TracerArrayConversionError:
    ...     print("use jnp.asarray")
    use jnp.asarray
    """


class NonConcreteBooleanIndexError(JAXIndexError):
    """Indexing by a traced boolean mask: the result's shape would depend on values.

    >>> try:
    ...     pyjax.jit(lambda x: x[x > 0])(jnp.ones(3))
    ... except NonConcreteBooleanIndexError:
    ...     print("use jnp.where(x > 0, x, 0)")
    use jnp.where(x > 0, x, 0)
    """


class UnexpectedTracerError(JAXTypeError):
    """A tracer escaped from the function in which it was created (a leaked tracer).

    Functions given to transformations must return every value they compute, not store it in a
    global, an attribute or an enclosing scope.

    >>> kept = []
    >>> pyjax.jit(lambda x: kept.append(x))(1.0)
    >>> try:
    ...     kept[0] + 1
    ... except UnexpectedTracerError:
    ...     print("return the value instead")
    return the value instead
    """


class TracerLeakError(PyjaxError, Exception):
    """Found by the option `check_tracer_leaks`: a tracer outlived its trace.

    >>> kept = []
    >>> with pyjax.checking_leaks():
    ...     try:
    ...         pyjax.jit(lambda x: kept.append(x))(1.0)
    ...     except Exception as error:
    ...         print(type(error).__name__)
    TracerLeakError
    """


class TypePromotionError(PyjaxError, ValueError):
    """Two dtypes have no implicit common dtype; convert one of them with `.astype`.

    >>> with pyjax.numpy_dtype_promotion("strict"):
    ...     try:
    ...         jnp.ones(2) + jnp.arange(2)
    ...     except TypePromotionError:
    ...         print("convert one of them with .astype")
    convert one of them with .astype
    """


class KeyReuseError(JAXTypeError):
    """A random key was consumed twice (option `debug_key_reuse`).

    >>> key = pyjax.random.key(0)
    >>> with pyjax.debug_key_reuse(True):
    ...     try:
    ...         pyjax.random.normal(key) + pyjax.random.uniform(key)
    ...     except KeyReuseError:
    ...         print("split the key")
    split the key
    """


class UnhashableStaticError(PyjaxError, ValueError):
    """A static argument cannot be hashed, so it cannot be part of a cache key.

    >>> try:
    ...     pyjax.jit(lambda x, sizes: x, static_argnums=1)(1.0, [2, 3])
    ... except ValueError:
    ...     print("pass a tuple")
    pass a tuple
    """


class OutOfBoundsError(PyjaxError, IndexError):
    """An index is out of bounds (option `error_checking_behavior_oob`).

    >>> issubclass(OutOfBoundsError, IndexError)
    True
    """


class ShardingTypeError(PyjaxError, Exception):
    """An operation on arrays that are split along mesh axes of type Explicit, where it does not
    follow how its result is split.

    >>> import pyjax
    >>> mesh = pyjax.sharding.AbstractMesh((2,), ("x",), (pyjax.sharding.AxisType.Explicit,))
    >>> row = pyjax.ShapeDtypeStruct(
    ...     (4,), "float32", sharding=pyjax.NamedSharding(mesh, pyjax.P("x")))
    >>> try:
    ...     pyjax.eval_shape(jnp.dot, row, row)
    ... except ShardingTypeError as error:
    ...     print(str(error)[:36])
    Contracting dimensions are sharded a

    Say it: `jnp.dot(row, row, out_sharding=P())`.
    """


class InconclusiveDimensionOperation(PyjaxError, Exception):
    """A comparison of symbolic sizes is not the same for all sizes that the constraints allow.

    Bad: `if x.shape[0] > 8: ...` while exporting for `b` rows.
    Good: the constraint `b >= 9` on the symbolic shape, or no such branch.

    >>> (b,) = pyjax.export.symbolic_shape("b")
    >>> try:
    ...     b > 8
    ... except InconclusiveDimensionOperation:
    ...     print("add the constraint b >= 9, or b <= 8")
    add the constraint b >= 9, or b <= 8
    """


class JaxprTypeError(PyjaxError, TypeError):
    """A jaxpr is ill-typed (found by `check_jaxpr`).

    >>> issubclass(JaxprTypeError, TypeError)
    True
    """


class InvalidInputException(PyjaxError, TypeError):
    """A value that is not an array, scalar or other valid type was passed to a transformation."""


class JaxRuntimeError(PyjaxError, RuntimeError):
    """The runtime failed while compiling or executing a program.

    >>> def fails(x):
    ...     raise ValueError("no")
    >>> try:
    ...     shape = pyjax.ShapeDtypeStruct((), "float32")
    ...     print(pyjax.jit(lambda x: pyjax.pure_callback(fails, shape, x))(1.0))
    ... except JaxRuntimeError:
    ...     print("the callback failed")
    the callback failed
    """


class OutOfMemoryError(JaxRuntimeError, MemoryError):
    """There is no memory for an array: a JaxRuntimeError as in JAX, and a MemoryError as in Python.

    Bad: results that are kept in a list though nobody needs them. Good: `del`, or a jitted function
    that is given its argument's memory (`donate_argnums`).
    """
