"""Mutable references: their type, and the class that users see. Layer: core.

A `Ref` holds an array that is replaced when somebody writes to it. References with memory are made
by `pyjax.new_ref` (`runtime.refs`); inside of transformed functions tracers stand for them, as they
do for arrays. What is done with references is in `lax.refs`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyjax.core.avals import AbstractValue, HasAval, ShapedArray, Split
from pyjax.core.errors import new_error
from pyjax.core.trace import Tracer
from xla_backend.process.bounded_cache import InternTable


class AbstractRef(AbstractValue):
    """The type of a mutable reference to an array: `Ref{float32[3]}`.

    Interned, as the types of arrays are: equal ones are one object.

    Args:
      inner_aval: the type of the array.
      memory_space: where the array is to lie; None leaves that to the platform.
      kind: None, or "no_grad_no_remat": the reference takes no part in derivatives.

    >>> total = pyjax.new_ref(jnp.zeros(3))
    >>> isinstance(pyjax.typeof(total), AbstractRef), pyjax.typeof(total)
    (True, Ref{float32[3]})
    """

    __slots__ = ("__weakref__", "inner_aval", "is_wide", "kind", "memory_space")
    inner_aval: ShapedArray
    is_wide: bool
    memory_space: Any
    kind: str | None

    def __new__(
        cls, inner_aval: ShapedArray, memory_space: Any = None, kind: str | None = None
    ) -> AbstractRef:
        key = (inner_aval, memory_space, kind)
        known = _interned.refs.get(key)
        aval = None if known is None else known()
        if aval is None:
            aval = object.__new__(AbstractRef)
            aval.inner_aval = inner_aval
            aval.is_wide = inner_aval.is_wide
            aval.memory_space = memory_space
            aval.kind = kind
            aval = _interned.intern(key, aval)
        return aval

    def __reduce__(self) -> Any:
        return (AbstractRef, (self.inner_aval, self.memory_space, self.kind))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.inner_aval.shape

    @property
    def dtype(self) -> Any:
        return self.inner_aval.dtype

    @property
    def ndim(self) -> int:
        return self.inner_aval.ndim

    @property
    def size(self) -> int:
        return self.inner_aval.size

    @property
    def weak_type(self) -> bool:
        return self.inner_aval.weak_type

    def update(self, inner_aval: ShapedArray | None = None, **fields: Any) -> AbstractRef:
        """The same type with another array type, or with some of its fields replaced."""
        inner = self.inner_aval if inner_aval is None else inner_aval
        return AbstractRef(
            inner.update(**fields) if fields else inner, self.memory_space, self.kind
        )

    def without_dim(self, dim: int) -> AbstractRef:
        return self.update(self.inner_aval.without_dim(dim))

    def with_dim(self, dim: int, size: int, along: Split | None = None) -> AbstractRef:
        return self.update(self.inner_aval.with_dim(dim, size, along))

    def strip_weak_type(self) -> AbstractRef:
        return self.update(self.inner_aval.strip_weak_type())

    def to_tangent_aval(self) -> AbstractRef:
        return self.update(self.inner_aval.to_tangent_aval())

    def str_short(self, short_dtypes: bool = False) -> str:
        return f"Ref{{{self.inner_aval.str_short(short_dtypes)}}}"

    def __len__(self) -> int:
        return len(self.inner_aval)

    def __repr__(self) -> str:
        return self.str_short()


_interned: InternTable[Any, AbstractRef] = InternTable()


def is_ref(x: Any) -> bool:
    """Whether a value is a mutable reference or a tracer of one."""
    return type(getattr(x, "aval", None)) is AbstractRef


class _RefType(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return super().__instancecheck__(x) or (cls is Ref and isinstance(x, Tracer) and is_ref(x))


class Ref(HasAval, metaclass=_RefType):
    """A mutable reference to an array, made by `pyjax.new_ref`.

    It is read and written by indexing, and by the functions of `pyjax.ref`; what is read is an
    array, which later writes do not change. Jitted functions take references as arguments or close
    over them, and update them in place.

    >>> import pyjax, pyjax.numpy as jnp
    >>> ref = pyjax.new_ref(jnp.zeros(3))
    >>> @pyjax.jit
    ... def count(i):
    ...     ref[i] += 1
    >>> count(2)
    >>> count(2)
    >>> ref
    Ref([0., 0., 2.], dtype=float32)
    """

    __slots__ = ()

    @property
    def aval(self) -> AbstractRef:
        """The type of the reference."""
        raise NotImplementedError

    def __len__(self) -> int:
        if not self.shape:
            raise new_error(TypeError, "len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Any:
        raise new_error(
            TypeError,
            "a Ref is not iterable, since it may change meanwhile. Iterate over ref[...] instead.",
        )

    # Installed by lax.refs.access.
    __getitem__: Callable[[Ref, Any], Any]
    __setitem__: Callable[[Ref, Any, Any], None]
    addupdate: Callable[..., None]
    at: Any

    # Of references with memory only.
    sharding: Any
    format: Any
    committed: Any
    unsafe_buffer_pointer: Callable[[], int]
