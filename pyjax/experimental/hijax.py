"""Primitives and types that users define by classes.

`VJPHiPrimitive` is a function with derivatives of its own, and `HiPrimitive` a primitive whose
rules are methods; both work on arrays, under every transformation that their methods provide for.
`HiType` and `MutableHiType` describe values of the users' own classes (`register_hitype`): such
values can be looked at (`typeof`, `cur_qdd`) outside of what is traced. They are no operands of
programs here: `jit` and `HiPrimitive.bind` refuse them, since a program's operands are arrays; pass
their arrays (a registered pytree does that), or mutable ones as `pyjax.new_ref`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyjax.api.custom_jvp import custom_jvp
from pyjax.api.custom_vjp import custom_vjp
from pyjax.core.avals import AbstractValue as AbstractValue
from pyjax.core.avals import ShapedArray as ShapedArray
from pyjax.core.avals import abstractify, aval_described
from pyjax.core.effects import Effect, Effects
from pyjax.core.errors import new_error
from pyjax.core.primitive import Primitive
from pyjax.core.refs import AbstractRef as AbstractRef
from pyjax.core.tree_util import tree_leaves, tree_map, tree_structure
from pyjax.interpreters.ad import instantiate_zeros as instantiate_zeros
from pyjax.interpreters.ad_tables import primitive_jvps, primitive_transposes
from pyjax.interpreters.batching import batch
from pyjax.interpreters.hlo import lower_fun
from pyjax.interpreters.rules import batching_rules, lowering_rules
from pyjax.interpreters.tangents import Zero as Zero
from pyjax.interpreters.tangents import is_undefined_primal as is_undefined_primal
from xla_backend.process.light_dataclasses import dataclass

_types: dict[type, Callable[[Any], AbstractValue]] = {}


# -- types -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class aval_method:
    """A function that a type offers as a method of values it describes.

    >>> class AngleType(HiType):
    ...     turned = aval_method(lambda value, by: value.degrees + by)
    >>> type(AngleType.turned).__name__
    'aval_method'
    """

    fun: Callable[..., Any]


@dataclass(frozen=True)
class aval_property:
    """A function that a type offers as a property of values it describes.

    >>> class AngleType(HiType):
    ...     radians = aval_property(lambda value: np.deg2rad(value.degrees))
    >>> type(AngleType.radians).__name__
    'aval_property'
    """

    fget: Callable[[Any], Any]


@dataclass(frozen=True)
class AvalQDD:
    """A type, and what is known of a value's state (quasi-dynamic data).

    >>> AvalQDD(pyjax.typeof(1.0), "open").qdd
    'open'
    """

    aval: AbstractValue
    qdd: Any


@dataclass(frozen=True)
class AvalMutableQDD:
    """A type, and a state that changes while a program is traced.

    >>> AvalMutableQDD(pyjax.typeof(1.0), {"steps": 3}).mutable_qdd
    {'steps': 3}
    """

    aval: AbstractValue
    mutable_qdd: Any


class HiType(AbstractValue):
    """Describes values of a user's class by arrays: `lo_ty() -> avals`, `lower_val(value) ->
    arrays`, `raise_val(*arrays) -> value`.

    >>> class Dual:
    ...     def __init__(self, x, dx):
    ...         self.x, self.dx = x, dx
    >>> class DualType(HiType):
    ...     def lo_ty(self):
    ...         return [pyjax.typeof(0.0)] * 2
    ...     def lower_val(self, value):
    ...         return [value.x, value.dx]
    ...     def raise_val(self, x, dx):
    ...         return Dual(x, dx)
    >>> DualType().raise_val(*DualType().lower_val(Dual(1.0, 2.0))).dx
    2.0
    """

    is_high = True
    has_qdd = False


class MutableHiType(AbstractValue):
    """Describes values whose state, and its type, changes in place.

    >>> class LogType(MutableHiType): ...
    >>> LogType().has_qdd
    True
    """

    is_high = True
    has_qdd = True


def register_hitype(val_cls: type, typeof_fn: Callable[[Any], AbstractValue]) -> None:
    """Say how values of a class are described: `typeof_fn(value)` is a HiType or MutableHiType.

    >>> class Angle: ...
    >>> class AngleType(HiType): ...
    >>> register_hitype(Angle, lambda value: AngleType())
    >>> type(hitype_of(Angle())).__name__
    'AngleType'
    """
    _types[val_cls] = typeof_fn


def hitype_of(value: Any) -> AbstractValue:
    """The type of a value whose class is registered.

    Raises:
      TypeError: it is not.

    >>> class Angle: ...
    >>> class AngleType(HiType): ...
    >>> register_hitype(Angle, lambda value: AngleType())
    >>> isinstance(hitype_of(Angle()), HiType)
    True
    """
    for cls in type(value).__mro__:
        if cls in _types:
            return _types[cls](value)
    raise new_error(
        TypeError,
        f"{type(value).__name__} is no registered type of values.",
        "types of values come from classes that are registered",
        f"Call hijax.register_hitype({type(value).__name__}, value_to_type).",
    )


def cur_qdd(x: Any) -> Any:
    """The state, as types see it, that a value of a MutableHiType has now.

    Raises:
      TypeError: its class is not registered, or its type has no such state.

    >>> class Counter:
    ...     steps = 0
    ...     def cur_qdd(self):
    ...         return self.steps
    >>> from pyjax.experimental import hijax
    >>> class CounterType(hijax.MutableHiType): ...
    >>> hijax.register_hitype(Counter, lambda value: CounterType())
    >>> hijax.cur_qdd(Counter())
    0
    """
    aval = hitype_of(x)
    if not getattr(aval, "has_qdd", False):
        raise new_error(
            TypeError,
            f"{type(x).__name__} has no state that its type depends on.",
            "only values of a MutableHiType have",
            "Derive its type from hijax.MutableHiType, and give the class a method cur_qdd.",
        )
    return x.cur_qdd()


class _AllowedEffects:
    """Effects that loops and branches may have: all, so that a type is only remembered."""

    def __init__(self) -> None:
        self._types: set[type[Effect]] = set()

    def add_type(self, effect_type: type[Effect]) -> None:
        self._types.add(effect_type)

    def contains(self, effect: Effect) -> bool:
        return isinstance(effect, (Effect, *self._types))

    def filter_not_in(self, effects: Effects) -> list[Effect]:
        return [effect for effect in effects if not self.contains(effect)]


control_flow_allowed_effects = _AllowedEffects()


# -- primitives ------------------------------------------------------------------------------------


class HiPrimitive:
    """A primitive whose rules are methods.

    Methods that subclasses write: `abstract_eval(*avals, **params) -> (aval, effects)` (avals with
    `multiple_results`), `to_lojax(*values, **params)`, what it computes; where they are wanted
    `impl`, `jvp(primals, tangents, **params)` and `transpose(ct, *operands, **params)`.

    >>> from pyjax import jvp
    >>> class Double(HiPrimitive):
    ...     def abstract_eval(self, x):
    ...         return x, set()
    ...     def to_lojax(self, x):
    ...         return x + x
    ...     def jvp(self, primals, tangents):
    ...         return self.bind(*primals), self.bind(*tangents)
    >>> jvp(Double("double").bind, (2.0,), (1.0,))
    (Array(4., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """

    multiple_results: bool = False

    def __init__(self, name: str) -> None:
        self.name = name
        primitive = self._primitive = Primitive(name)
        primitive.multiple_results = type(self).multiple_results
        primitive.abstract_eval_rule = lambda *avals, **params: self.abstract_eval(
            *avals, **params
        )[0]
        cls = type(self)
        if cls.to_lojax is not HiPrimitive.to_lojax:
            lowering_rules[primitive] = lower_fun(self.to_lojax)
            batching_rules[primitive] = self._batched
        if cls.impl is not HiPrimitive.impl:
            primitive.def_impl(self.impl)
        if cls.jvp is not HiPrimitive.jvp:
            primitive_jvps[primitive] = self.jvp
        if cls.transpose is not HiPrimitive.transpose:
            primitive_transposes[primitive] = self.transpose

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply to arrays.

        Raises:
          NotImplementedError: to a value of a registered type.
        """
        for x in args:
            if type(x) in _types:
                raise new_error(
                    NotImplementedError,
                    f"{self.name} is applied to a value of {type(x).__name__}.",
                    "operands of programs are arrays; a value of another type has no place in one",
                    "Pass its arrays, or a mutable one as pyjax.new_ref.",
                )
        return self._primitive.bind(*args, **params)

    def _batched(
        self, axis_size: int, args: Sequence[Any], dims: Sequence[Any], **params: Any
    ) -> tuple[list[Any], list[Any]]:
        def flat(*xs: Any) -> list[Any]:
            outs = self.to_lojax(*xs, **params)
            return list(outs) if self.multiple_results else [outs]

        outs = batch(flat, args, dims, 0, axis_size)
        return outs, [0] * len(outs)

    def _unwritten(self, method: str) -> Exception:
        return new_error(
            NotImplementedError,
            f"{type(self).__name__} has no method {method}.",
            "rules of a HiPrimitive are its methods",
            f"Write {method} in the class.",
        )

    def abstract_eval(self, *avals: Any, **params: Any) -> tuple[Any, Any]:
        """Types of the results, and effects."""
        raise self._unwritten("abstract_eval")

    def to_lojax(self, *values: Any, **params: Any) -> Any:
        """What it computes, in terms of other operations."""
        raise self._unwritten("to_lojax")

    def impl(self, *values: Any, **params: Any) -> Any:
        """What it computes outside of what is compiled; `to_lojax` if it is not written."""
        raise self._unwritten("impl")

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """Results, and their tangents."""
        raise self._unwritten("jvp")

    def transpose(self, *args: Any, **params: Any) -> Any:
        """Cotangents of the operands."""
        raise self._unwritten("transpose")


class VJPHiPrimitive:
    """A function of arrays whose derivative is written by hand; an instance is one for given types.

    A subclass sets, before `super().__init__()`, `in_avals` (a tuple of pytrees of types, one per
    argument), `out_aval` and `params`, and writes `expand(*args)`, what it computes, and either
    `vjp_fwd(nonzero_in, *args) -> (result, residuals)` with `vjp_bwd_retval(residuals, ct) -> cts`,
    or `jvp(primals, tangents) -> (result, tangent)`.

    >>> import pyjax.numpy as jnp
    >>> from pyjax import grad, typeof
    >>> class Sine(VJPHiPrimitive):
    ...     def __init__(self, aval):
    ...         self.in_avals, self.out_aval, self.params = (aval,), aval, {}
    ...         super().__init__()
    ...     def expand(self, x):
    ...         return jnp.sin(x)
    ...     def vjp_fwd(self, nonzero_in, x):
    ...         return self(x), x
    ...     def vjp_bwd_retval(self, x, ct):
    ...         return (10 * ct * jnp.cos(x),)
    >>> x = jnp.float32(0.0)
    >>> float(grad(Sine(typeof(x)))(x))
    10.0
    """

    in_avals: tuple[Any, ...]
    out_aval: Any
    params: dict[str, Any]

    def __init__(self) -> None:
        for name in ("in_avals", "out_aval", "params"):
            if not hasattr(self, name):
                raise new_error(
                    AttributeError,
                    f"{type(self).__name__} has no {name}.",
                    "a VJPHiPrimitive is made for given types of arguments and result",
                    f"Set self.{name} before super().__init__().",
                )
        vars(self).update(self.params)
        self.in_avals_flat = tree_leaves(self.in_avals)
        expand = lambda *args: self.expand(*args)
        if type(self).jvp is not VJPHiPrimitive.jvp:
            by_jvp = custom_jvp(expand)
            by_jvp.defjvp(lambda primals, tangents: self.jvp(primals, tangents))
            self._function: Callable[..., Any] = by_jvp
            return
        if type(self).vjp_fwd is VJPHiPrimitive.vjp_fwd:
            self._function = expand
            return
        by_vjp = custom_vjp(expand)
        nonzero = tree_map(lambda _: True, self.in_avals)
        by_vjp.defvjp(
            lambda *args: self.vjp_fwd(nonzero, *args),
            lambda residuals, ct: tuple(self.vjp_bwd_retval(residuals, ct)),
        )
        self._function = by_vjp

    def __call__(self, *args: Any) -> Any:
        """Apply to arguments of the types it is made for.

        Raises:
          TypeError: they have others.
        """
        self.check(*args)
        return self._function(*args)

    def check(self, *args: Any) -> None:
        """Arguments have the structure, shapes and dtypes of `in_avals`."""
        structure = tree_structure(tuple(args))
        have = [abstractify(x) for x in tree_leaves(tuple(args))]
        want = [aval_described(a) for a in self.in_avals_flat]
        same = len(have) == len(want) and all(
            a.shape == b.shape and a.dtype == b.dtype for a, b in zip(have, want)
        )
        if structure != tree_structure(tuple(self.in_avals)) or not same:
            raise new_error(
                TypeError,
                f"{type(self).__name__} is applied to {[a.str_short() for a in have]}, but is made "
                f"for {[a.str_short() for a in want]}.",
                "an instance is for given types of arguments",
                "Make another instance for these types.",
            )

    def expand(self, *args: Any) -> Any:
        """What it computes."""
        raise new_error(
            NotImplementedError,
            f"{type(self).__name__} has no method expand.",
            "it says what the function computes",
            "Write expand(self, *args) in the class.",
        )

    def vjp_fwd(self, nonzero_in: Any, /, *args: Any) -> tuple[Any, Any]:
        """The result, and what the backward pass needs."""
        raise NotImplementedError(f"for derivatives write vjp_fwd in {type(self).__name__}")

    def vjp_bwd_retval(self, residuals: Any, ct: Any, /) -> Any:
        """Cotangents of the arguments."""
        raise NotImplementedError(f"for derivatives write vjp_bwd_retval in {type(self).__name__}")

    def jvp(self, primals: Any, tangents: Any) -> tuple[Any, Any]:
        """The result, and its tangent."""
        raise NotImplementedError(f"for derivatives write jvp in {type(self).__name__}")
