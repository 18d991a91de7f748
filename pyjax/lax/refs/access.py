"""What users do with mutable references: make them, read, write, and freeze them."""

from __future__ import annotations

from typing import Any

from pyjax.core.avals import abstractify
from pyjax.core.errors import fail
from pyjax.core.refs import AbstractRef, Ref, is_ref
from pyjax.core.structural import get_p, new_ref_p, swap_p, zeros_like_aval
from pyjax.core.trace import Tracer
from pyjax.core.traceback_filter import api_boundary
from pyjax.lax.common import is_floating, is_integer
from pyjax.lax.convert import convert_element_type
from pyjax.lax.refs.indexers import Indexers, parse_index, result_shape
from pyjax.lax.refs.primitives import addupdate_p, check_value, freeze_p

_KINDS = (None, "no_grad_no_remat")


class RefView:
    """A part of a mutable reference, `ref.at[index]`: read, written and indexed as one.

    Attributes:
      ref: the reference.
      indexers, operands: what was indexed so far.
    """

    __slots__ = ("indexers", "operands", "ref")

    def __init__(self, ref: Any, indexers: Indexers, operands: tuple[Any, ...]) -> None:
        self.ref = ref
        self.indexers = indexers
        self.operands = operands

    @property
    def shape(self) -> tuple[int, ...]:
        return result_shape(self.ref.aval.shape, self.indexers)

    @property
    def dtype(self) -> Any:
        return self.ref.aval.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def at(self) -> _Viewer:
        """`view.at[index]`: a part of this part."""
        return _Viewer(self)

    def __getitem__(self, index: Any) -> Any:
        return get(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        set(self, index, value)

    def __repr__(self) -> str:
        return f"RefView({self.ref.aval.str_short()} at {self.shape})"


class _Viewer:
    """`ref.at`."""

    __slots__ = ("_whole",)

    def __init__(self, whole: Any) -> None:
        self._whole = whole

    def __getitem__(self, index: Any) -> RefView:
        return _view("ref.at", self._whole, index)


def _view(what: str, ref: Any, index: Any) -> RefView:
    """A reference or a part of one, indexed."""
    whole = ref if isinstance(ref, RefView) else RefView(ref, (), ())
    if not is_ref(whole.ref):
        fail(
            ValueError,
            f"Can only call `{what}` on a `Ref`: got {ref!r:.60} of type {type(ref).__name__}.",
            "arrays do not change",
            "Make a Ref of it with pyjax.new_ref(x), or use x.at[index].set(value).",
        )
    indexer, operands = parse_index(index, whole.shape)
    if indexer is None:
        return whole
    return RefView(whole.ref, (*whole.indexers, indexer), (*whole.operands, *operands))


@api_boundary
def new_ref(init_val: Any, *, memory_space: Any = None, kind: str | None = None) -> Ref:
    """Make a mutable reference that holds `init_val` at first.

    Args:
      init_val: array or number; it stays as it is, whatever is written to the reference.
      memory_space: None.
      kind: None, or "no_grad_no_remat": no derivative goes through what is written and read.
    Raises:
      TypeError: not an array, or a Ref.   ValueError: no such kind.
      NotImplementedError: a memory space.
    Source: `jax.new_ref`.

    >>> import pyjax.numpy as jnp
    >>> ref = new_ref(jnp.zeros(3))
    >>> ref[1] = 5.0
    >>> ref[...].tolist()
    [0.0, 5.0, 0.0]
    """
    if memory_space is not None:
        fail(
            NotImplementedError,
            f"new_ref got memory_space={memory_space!r}.",
            "references lie in the default memory of their device",
            "Leave memory_space out.",
        )
    if kind not in _KINDS:
        fail(
            ValueError,
            f"new_ref got kind={kind!r}.",
            fix=f"The kinds are {' and '.join(map(repr, _KINDS))}.",
        )
    if is_ref(init_val):
        fail(
            TypeError,
            f"new_ref got a Ref, {init_val.aval.str_short()}.",
            "a Ref holds an array",
            "Pass what it holds: new_ref(ref[...]).",
        )
    return new_ref_p.bind1(_value("new_ref", init_val), memory_space=None, kind=kind)


@api_boundary
def empty_ref(ty: Any, memory_space: Any = None) -> Ref:
    """Make a mutable reference to an array of this type; what it holds at first is not defined.

    Args:
      ty: has a shape and a dtype, as an array or a ShapeDtypeStruct.

    >>> import pyjax, pyjax.numpy as jnp
    >>> empty_ref(pyjax.ShapeDtypeStruct((2, 3), jnp.float32)).shape
    (2, 3)
    """
    return new_ref(zeros_like_aval(abstractify(ty)), memory_space=memory_space)


@api_boundary
def freeze(ref: Ref) -> Any:
    """The array that a reference holds, at the end of its use.

    Source: `jax.freeze`.

    >>> import pyjax.numpy as jnp
    >>> ref = new_ref(jnp.zeros(2))
    >>> ref[0] = 1.0
    >>> freeze(ref).tolist()
    [1.0, 0.0]
    """
    return freeze_p.bind1(_view("freeze", ref, None).ref)


def free_ref(ref: Ref) -> tuple[()]:
    """End the use of a reference; its memory is given back when nobody refers to it.

    >>> free_ref(new_ref(0.0))
    ()
    """
    _view("free_ref", ref, None)
    return ()


@api_boundary
def get(ref: Any, idx: Any = None) -> Any:
    """What a reference holds at an index, `ref[idx]`, as an array that does not change.

    Args:
      ref: a Ref, or a part of one (`ref.at[...]`).
      idx: integers, slices with positive steps, integer arrays, `...`; None: all of it. Integers
        out of bounds are clamped where they are not known.
    Raises:
      ValueError: not a Ref, too many indices, an index that is known and out of bounds.
      TypeError: something else as index.   NonConcreteBooleanIndexError: a mask.
    Source: `jax.ref.get`.

    >>> import pyjax.numpy as jnp
    >>> get(new_ref(jnp.arange(5)), slice(1, 3)).tolist()
    [1, 2]
    """
    view = _view("get", ref, idx)
    return get_p.bind1(view.ref, *view.operands, indexers=view.indexers)


@api_boundary
def swap(ref: Any, idx: Any, value: Any, _function_name: str = "ref_swap") -> Any:
    """Write to a reference, `ref[idx] = value`, and return what was there before.

    Args:
      idx: as in `get`.
      value: array of the shape of `ref[idx]` and the dtype of the reference; Python numbers and
        arrays of another width are converted.
    Raises:
      ValueError: another shape or dtype; a value that is differentiated or mapped, and a reference
        that is not.
    Source: `jax.ref.swap`.

    >>> import pyjax.numpy as jnp
    >>> ref = new_ref(jnp.arange(3))
    >>> int(swap(ref, 1, 10)), ref
    (1, Ref([ 0, 10,  2], dtype=int32))
    """
    view = _view(_function_name, ref, idx)
    value = _cast(_value(_function_name, value), view.dtype)
    check_value(_function_name, view.ref.aval, abstractify(value), view.indexers)
    return swap_p.bind1(view.ref, value, *view.operands, indexers=view.indexers)


def set(ref: Any, idx: Any, value: Any) -> None:
    """Write to a reference: `ref[idx] = value`. Arguments and errors are those of `swap`.

    >>> import pyjax.numpy as jnp
    >>> ref = new_ref(jnp.zeros(3))
    >>> set(ref, slice(0, 2), jnp.ones(2))
    >>> ref
    Ref([1., 1., 0.], dtype=float32)
    """
    swap(ref, idx, value, "set")


@api_boundary
def addupdate(ref: Any, idx: Any, x: Any) -> None:
    """Add to a reference: `ref[idx] += x`, as often as an index occurs.

    Args:
      idx: as in `get`.
      x: array of the shape of `ref[idx]` and the dtype of the reference.
    Raises:
      ValueError: another shape or dtype.
    Source: `jax.ref.addupdate`.

    >>> import pyjax.numpy as jnp
    >>> ref = new_ref(jnp.zeros(3))
    >>> addupdate(ref, jnp.array([0, 0, 2]), jnp.ones(3))
    >>> ref
    Ref([2., 0., 1.], dtype=float32)
    """
    view = _view("addupdate", ref, idx)
    value = _value("addupdate", x)
    check_value("addupdate", view.ref.aval, abstractify(value), view.indexers)
    addupdate_p.bind(view.ref, value, *view.operands, indexers=view.indexers)


def _value(what: str, value: Any) -> Any:
    """A value as the primitives take it."""
    if isinstance(value, RefView):
        fail(
            TypeError,
            f"{what} got a part of a Ref as a value.",
            "a Ref holds an array",
            "Read it: ref.at[index][...].",
        )
    abstractify(value)
    return value.__jax_array__() if hasattr(value, "__jax_array__") else value


def _cast(value: Any, dtype: Any) -> Any:
    """Python's floats, and integers of any width, take the dtype of the reference."""
    aval = abstractify(value)
    if type(aval) is AbstractRef or aval.dtype == dtype:
        return value
    both_float = aval.weak_type and is_floating(aval.dtype) and is_floating(dtype)
    if both_float or (is_integer(aval.dtype) and is_integer(dtype)):
        return convert_element_type(value, dtype)
    return value


# -- methods of references, and of the tracers that stand for them ---------------------------------


def _addupdate_method(self: Ref, x: Any, idx: Any = ()) -> None:
    """Add to what is at an index; default: to all of it."""
    addupdate(self, idx, x)


def at(self: Any) -> _Viewer:
    """`ref.at[index]`: a part of the reference, which is read and written as one is."""
    return _Viewer(self)


Ref.__getitem__ = get  # type: ignore[method-assign]
Ref.__setitem__ = set  # type: ignore[method-assign]
Ref.addupdate = _addupdate_method  # type: ignore[method-assign]
Ref.at = property(at)
Tracer.addupdate = _addupdate_method  # type: ignore[attr-defined]
