"""The primitives of mutable references with all their rules: new_ref, get, swap, addupdate, freeze.

Where a reference meets a transformation, there are two of them (its value and its tangents), or one
whose array has one more axis. Derivatives of loops, branches and calls that use references, and
transposition, never see references: `interpreters.discharge` takes them out before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyjax.core import dtypes
from pyjax.core.avals import ShapedArray, abstractify
from pyjax.core.effects import (
    AccumEffect,
    Effects,
    ReadEffect,
    WriteEffect,
    new_ref_effect,
)
from pyjax.core.errors import fail
from pyjax.core.primitive import Primitive
from pyjax.core.refs import AbstractRef
from pyjax.core.structural import get_p, new_ref_p, new_tangent_ref_p, swap_p
from pyjax.interpreters import ad
from pyjax.interpreters.batching import batch_with_dims, bdim_at_front, move_bdim
from pyjax.interpreters.discharge import Cell
from pyjax.interpreters.rules import (
    FullJvp,
    Unsupported,
    batches_unmapped,
    define_primitive,
    define_rules,
    discharge_rules,
)
from pyjax.lax.refs.indexers import Indexers, add_to, read, result_shape, write
from pyjax.runtime.dispatch import apply_primitive, as_array
from pyjax.runtime.refs import DeviceRef

_DISCHARGED = Unsupported("references are taken out of programs before")
_NO_GRAD = "no_grad_no_remat"


def _never_lowered(*args: Any, **params: Any) -> Any:
    raise AssertionError("references are taken out of programs before they are lowered")


# -- making and freezing ---------------------------------------------------------------------------


def _new_ref_aval(init: ShapedArray, *, memory_space: Any, kind: str | None) -> AbstractRef:
    return AbstractRef(init, memory_space, kind)


def _makes_ref(*avals: Any, **params: Any) -> Effects:
    return frozenset([new_ref_effect])


def _new_ref_jvp(primitive: Any) -> Callable[..., Any]:
    def rule(primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
        """A reference has tangents from the start: something that has some may be written to
        it."""
        (init,), (tangent,) = primals, tangents
        ref = primitive.bind1(init, **params)
        aval = ref.aval.to_tangent_aval()
        if aval.dtype == dtypes.float0 or params["kind"] == _NO_GRAD:
            return [ref], [ad.Zero(aval)]
        return [ref], [new_tangent_ref_p.bind1(ad.instantiate_zeros(tangent), **params)]

    return rule


def _new_ref_batching(primitive: Any) -> Callable[..., Any]:
    def rule(axis_size: int, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        """A reference is mapped from the start: something mapped may be written to it."""
        init = bdim_at_front(args[0], dims[0], axis_size)
        return primitive.bind_all(init, **params), [0]

    return rule


def _new_ref_discharge(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    (init,) = args
    cell = Cell(_new_ref_aval(abstractify(init), **params), None)
    cell.write(init)
    return [cell]


def _make(init: Any, *, memory_space: Any, kind: str | None) -> DeviceRef:
    array = as_array(init)
    return DeviceRef(array, AbstractRef(array.aval, memory_space, kind))


for _primitive in (new_ref_p, new_tangent_ref_p):
    define_rules(
        _primitive,
        abstract_eval=_new_ref_aval,
        jvp=FullJvp(_new_ref_jvp(_primitive)),
        transpose=_DISCHARGED,
        batching=_new_ref_batching(_primitive),
        lowering=_never_lowered,
        effects=_makes_ref,
        impl=_make,
    )
    discharge_rules[_primitive] = _new_ref_discharge
    batches_unmapped.add(_primitive)


def _freeze_jvp(primals: Any, tangents: Any) -> tuple[list[Any], list[Any]]:
    (ref,), (tangent,) = primals, tangents
    out = freeze_p.bind1(ref)
    if type(tangent) is ad.Zero:
        return [out], [ad.Zero(out.aval.to_tangent_aval())]
    return [out], freeze_p.bind_all(tangent)


def _freeze_batching(axis_size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
    return freeze_p.bind_all(*args), list(dims)


freeze_p: Primitive = define_primitive(
    "freeze",
    abstract_eval=lambda ref: ref.inner_aval,
    jvp=FullJvp(_freeze_jvp),
    transpose=_DISCHARGED,
    batching=_freeze_batching,
    lowering=_never_lowered,
    effects=lambda ref: frozenset([new_ref_effect, ReadEffect(0)]),
    impl=lambda ref: ref.snapshot(),
)
discharge_rules[freeze_p] = lambda args, params: [args[0].read()]


# -- reading ---------------------------------------------------------------------------------------


def _chosen(ref: AbstractRef, indexers: Indexers) -> ShapedArray:
    return ref.inner_aval.update(shape=result_shape(ref.shape, indexers))


def _get_jvp(primals: Any, tangents: Any, *, indexers: Indexers) -> tuple[list[Any], list[Any]]:
    (ref, *index), tangent = primals, tangents[0]
    out = get_p.bind1(ref, *index, indexers=indexers)
    if type(tangent) is ad.Zero:
        return [out], [ad.Zero(_chosen(ref.aval, indexers).to_tangent_aval())]
    return [out], get_p.bind_all(tangent, *index, indexers=indexers)


def _get_batching(
    axis_size: int, args: Sequence[Any], dims: Sequence[Any], *, indexers: Indexers
) -> tuple[list[Any], list[Any]]:
    whole = get_p.bind1(args[0], indexers=())
    return batch_with_dims(
        lambda x, *index: [read(x, indexers, index)], [whole, *args[1:]], dims, axis_size
    )


def _get_discharge(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    cell, *index = args
    return [read(cell.read(), params["indexers"], index)]


def _get_now(ref: Any, *index: Any, indexers: Indexers) -> Any:
    if not indexers:
        return ref.snapshot()  # no program would be quicker
    return apply_primitive(get_p, (ref, *index), {"indexers": indexers})[0]


define_rules(
    get_p,
    abstract_eval=lambda ref, *index, indexers: _chosen(ref, indexers),
    jvp=FullJvp(_get_jvp),
    transpose=_DISCHARGED,
    batching=_get_batching,
    lowering=_never_lowered,
    effects=lambda *avals, indexers: frozenset([ReadEffect(0)]),
    impl=_get_now,
)
discharge_rules[get_p] = _get_discharge


# -- writing ---------------------------------------------------------------------------------------


def check_value(what: str, ref: AbstractRef, value: Any, indexers: Indexers) -> None:
    """What is written must have the type of the elements it is written to.

    Raises:
      ValueError: it is a reference, or has another shape or dtype.
    """
    if type(value) is AbstractRef:
        fail(
            ValueError,
            f"Cannot store a Ref into another Ref: {value.str_short()} was passed to {what}.",
            "a Ref holds an array",
            "Did you forget to load from it? Write other[...].",
        )
    wanted = _chosen(ref, indexers)
    if value.shape != wanted.shape:
        fail(
            ValueError,
            f"Invalid shape for `{what}`: the value is {value.str_short()}, the chosen part of "
            f"{ref.str_short()} is {wanted.str_short()}.",
            "values are not broadcast to what they are written to",
            f"Broadcast it: jnp.broadcast_to(value, {wanted.shape}).",
        )
    if value.dtype != wanted.dtype:
        fail(
            ValueError,
            f"Invalid dtype for `{what}`: the value is {value.str_short()}, the Ref "
            f"{ref.str_short()}.",
            "values are not converted to the dtype of what they are written to",
            f"Convert it: value.astype({wanted.dtype!s}).",
        )


def _swap_aval(ref: AbstractRef, value: Any, *index: Any, indexers: Indexers) -> ShapedArray:
    check_value("swap", ref, value, indexers)
    return _chosen(ref, indexers)


def _tangent_target(what: str, ref: Any, ref_tangent: Any, tangent: Any) -> Any:
    """The reference that a tangent is written to; None if there is nothing to write."""
    if type(ref_tangent) is not ad.Zero:
        return ref_tangent
    if type(tangent) is ad.Zero or ref.aval.kind == _NO_GRAD:
        return None
    if tangent.dtype == dtypes.float0:
        return None
    fail(
        ValueError,
        f"{what} writes a value that is differentiated to a Ref that is not, of type "
        f"{ref.aval.str_short()}.",
        "the Ref was made outside of the function that is differentiated: what is read from it "
        "later would lack its derivative",
        "Make the Ref inside of the function, or write lax.stop_gradient(value).",
    )


def _swap_jvp(primals: Any, tangents: Any, *, indexers: Indexers) -> tuple[list[Any], list[Any]]:
    (ref, value, *index), (ref_tangent, tangent, *_) = primals, tangents
    target = _tangent_target("swap", ref, ref_tangent, tangent)
    out = swap_p.bind1(ref, value, *index, indexers=indexers)
    if target is None:
        return [out], [ad.Zero(_chosen(ref.aval, indexers).to_tangent_aval())]
    return [out], swap_p.bind_all(target, ad.instantiate_zeros(tangent), *index, indexers=indexers)


def _check_mapped(what: str, ref: Any, dim: Any) -> None:
    if dim is None:
        fail(
            ValueError,
            f"{what} writes a value that is mapped, or at a mapped index, to a Ref that is not, of "
            f"type {ref.aval.str_short()}.",
            "vmap makes the elements one array, and which of them writes last is not defined",
            "Make the Ref an argument of the mapped function, or write what the mapped function "
            "returns.",
        )


def _swap_batching(
    axis_size: int, args: Sequence[Any], dims: Sequence[Any], *, indexers: Indexers
) -> tuple[list[Any], list[Any]]:
    ref, dim = args[0], dims[0]
    _check_mapped("swap", ref, dim)
    if not indexers:
        value = _placed(args[1], dims[1], dim, axis_size)
        return swap_p.bind_all(ref, value, indexers=()), [dim]

    def both(x: Any, value: Any, *index: Any) -> list[Any]:
        return [read(x, indexers, index), write(x, indexers, index, value)]

    whole = get_p.bind1(ref, indexers=())
    (old, new), (old_dim, new_dim) = batch_with_dims(both, [whole, *args[1:]], dims, axis_size)
    swap_p.bind(ref, _placed(new, new_dim, dim, axis_size), indexers=())
    return [old], [old_dim]


def _placed(x: Any, have: Any, want: int, axis_size: int) -> Any:
    return move_bdim(bdim_at_front(x, have, axis_size), 0, want)


def _swap_discharge(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    cell, value, *index = args
    indexers = params["indexers"]
    before = cell.read()
    cell.write(write(before, indexers, index, value))
    return [read(before, indexers, index)]


define_rules(
    swap_p,
    abstract_eval=_swap_aval,
    jvp=FullJvp(_swap_jvp),
    transpose=_DISCHARGED,
    batching=_swap_batching,
    lowering=_never_lowered,
    effects=lambda *avals, indexers: frozenset([WriteEffect(0)]),
)
discharge_rules[swap_p] = _swap_discharge


def _addupdate_aval(ref: AbstractRef, value: Any, *index: Any, indexers: Indexers) -> list[Any]:
    check_value("addupdate", ref, value, indexers)
    return []


def _addupdate_jvp(
    primals: Any, tangents: Any, *, indexers: Indexers
) -> tuple[list[Any], list[Any]]:
    (ref, value, *index), (ref_tangent, tangent, *_) = primals, tangents
    target = _tangent_target("addupdate", ref, ref_tangent, tangent)
    addupdate_p.bind(ref, value, *index, indexers=indexers)
    if target is not None and type(tangent) is not ad.Zero:
        addupdate_p.bind(target, tangent, *index, indexers=indexers)
    return [], []


def _addupdate_batching(
    axis_size: int, args: Sequence[Any], dims: Sequence[Any], *, indexers: Indexers
) -> tuple[list[Any], list[Any]]:
    ref, dim = args[0], dims[0]
    _check_mapped("addupdate", ref, dim)

    def added(x: Any, value: Any, *index: Any) -> list[Any]:
        return [add_to(x, indexers, index, value)]

    whole = get_p.bind1(ref, indexers=())
    (new,), (new_dim,) = batch_with_dims(added, [whole, *args[1:]], dims, axis_size)
    swap_p.bind(ref, _placed(new, new_dim, dim, axis_size), indexers=())
    return [], []


def _addupdate_discharge(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    cell, value, *index = args
    cell.write(add_to(cell.read(), params["indexers"], index, value))
    return []


addupdate_p = define_primitive(
    "addupdate",
    abstract_eval=_addupdate_aval,
    jvp=FullJvp(_addupdate_jvp),
    transpose=_DISCHARGED,
    batching=_addupdate_batching,
    lowering=_never_lowered,
    effects=lambda *avals, indexers: frozenset([AccumEffect(0)]),
    multiple_results=True,
)
discharge_rules[addupdate_p] = _addupdate_discharge
