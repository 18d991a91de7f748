"""The jaxpr: a typed, printable program. Data structures, evaluation and small utilities.

Text is in `core/jaxpr_text.py`, the type checker in `core/check_jaxpr.py`. Layer: core.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pyjax._config import options
from pyjax.core.avals import abstractify
from pyjax.core.call_chains import Replay, override
from pyjax.core.debug_info import UNKNOWN, DebugInfo
from pyjax.core.effects import Effects, RefEffect, join_effects, no_effects, refer_to_refs
from pyjax.core.errors import new_error
from pyjax.core.primitive import Primitive
from pyjax.core.source_info import Frame
from pyjax.core.structural import convert_element_type_p

_count = itertools.count()


class Var:
    """A variable: equal by identity.

    >>> (x,) = pyjax.make_jaxpr(lambda x: 2 * x)(1.0).jaxpr.invars
    >>> isinstance(x, Var), x.aval.shape
    (True, ())
    """

    __slots__ = ("aval", "count")
    # What is known of a state that changes while a program runs (`experimental.hijax`): values with
    # one are no operands of programs.
    initial_qdd: None = None
    final_qdd: None = None

    def __init__(self, aval: Any) -> None:
        self.aval = aval
        self.count = next(_count)

    def __repr__(self) -> str:
        return f"Var(id={self.count}):{self.aval.str_short(short_dtypes=True)}"


class DropVar(Var):
    """An output nobody reads; printed `_`.

    >>> jaxpr = pyjax.make_jaxpr(lambda x: lax.top_k(x, 1)[0])(jnp.ones(3)).jaxpr
    >>> [type(v) is DropVar for v in jaxpr.eqns[0].outvars]
    [False, True]
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "_"


class Literal:
    """A scalar constant in operand position.

    >>> (eqn,) = pyjax.make_jaxpr(lambda x: 2 * x)(1.0).eqns
    >>> [float(v.val) for v in eqn.invars if isinstance(v, Literal)]
    [2.0]
    """

    __slots__ = ("aval", "val")

    def __init__(self, val: Any, aval: Any = None) -> None:
        self.val = val
        self.aval = abstractify(val) if aval is None else aval

    def __repr__(self) -> str:
        return f"Literal({self.val})"


Atom = Var | Literal


class JaxprEqn:
    """`outvars = primitive[params] invars`.

    >>> (eqn,) = pyjax.make_jaxpr(lambda x: 2 * x)(1.0).eqns
    >>> isinstance(eqn, JaxprEqn), eqn.primitive.name, len(eqn.invars)
    (True, 'mul', 2)
    """

    __slots__ = ("effects", "invars", "outvars", "params", "primitive", "source")

    def __init__(
        self,
        invars: list[Any],
        outvars: list[Var],
        primitive: Primitive,
        params: dict[str, Any],
        effects: Effects = no_effects,
        source: Frame | None = None,
    ) -> None:
        self.invars = invars
        self.outvars = outvars
        self.primitive = primitive
        self.params = params
        self.effects = effects
        self.source = source

    @property
    def source_info(self) -> Frame | None:
        """The user's line it comes from: `source`, by the name that libraries use."""
        return self.source

    def replace(self, **changes: Any) -> JaxprEqn:
        """A copy with some fields replaced."""
        if "source_info" in changes:
            changes["source"] = changes.pop("source_info")
        fields = {name: changes.get(name, getattr(self, name)) for name in _EQN_FIELDS}
        return JaxprEqn(**fields)

    def __repr__(self) -> str:
        return _to_text(self)


_EQN_FIELDS = ("invars", "outvars", "primitive", "params", "effects", "source")


class _Program:
    """What programs with and without constants have in common.

    Attributes:
      is_high: whether there are values of the users' own types (`experimental.hijax`) inside; those
        types end with tracing.
      in_aval_qdds, final_aval_qdds: types of the inputs, and what is known of their states before
        and after a run: they have none.
    """

    __slots__ = ()
    is_high: bool = False

    @property
    def in_avals(self) -> list[Any]:
        raise NotImplementedError

    @property
    def in_aval_qdds(self) -> list[Any]:
        return self.in_avals

    @property
    def final_aval_qdds(self) -> list[Any]:
        return self.in_avals

    def pretty_print(
        self,
        *,
        use_color: bool | None = None,
        source_info: bool = False,
        name_stack: bool = False,
    ) -> str:
        """The text of `str`, in color if asked for, with the user's line behind each equation if
        `source_info`, and the names of scopes if `name_stack`."""
        return _to_text(self, use_color, source_info, name_stack)

    def __repr__(self) -> str:
        return _to_text(self)


class Jaxpr(_Program):
    """A program: `invars` and `constvars` in, `outvars` out. Never changed once built.

    >>> jaxpr = pyjax.make_jaxpr(lambda x: 2 * x)(1.0).jaxpr
    >>> isinstance(jaxpr, Jaxpr), len(jaxpr.invars), len(jaxpr.eqns)
    (True, 1, 1)
    """

    __slots__ = (
        "__weakref__",
        "constvars",
        "debug_info",
        "effects",
        "eqns",
        "invars",
        "outvars",
    )

    def __init__(
        self,
        constvars: Sequence[Var],
        invars: Sequence[Var],
        outvars: Sequence[Any],
        eqns: list[JaxprEqn],
        effects: Effects | None = None,
        debug_info: DebugInfo = UNKNOWN,
    ) -> None:
        self.constvars = list(constvars)
        self.invars = list(invars)
        self.outvars = list(outvars)
        self.eqns = eqns
        effects = join_effects(e.effects for e in eqns) if effects is None else effects
        if effects and refer_to_refs(effects):
            effects = _effects_on_inputs(effects, (*constvars, *invars), eqns)
        self.effects = effects
        self.debug_info = debug_info

    def replace(self, **changes: Any) -> Jaxpr:
        """A copy with some fields replaced; effects are recomputed when equations change."""
        names = ("constvars", "invars", "outvars", "eqns", "debug_info")
        fields = {name: changes.get(name, getattr(self, name)) for name in names}
        if "eqns" not in changes:
            fields["effects"] = self.effects
        return Jaxpr(**fields)

    @property
    def in_avals(self) -> list[Any]:
        return [v.aval for v in self.invars]

    @property
    def out_avals(self) -> list[Any]:
        return [v.aval for v in self.outvars]


def _effects_on_inputs(effects: Effects, inputs: Sequence[Var], eqns: list[JaxprEqn]) -> Effects:
    """The effects of equations as those of a jaxpr with these inputs."""
    positions = {v: i for i, v in enumerate(inputs)}
    found: set[Any] = {e for e in effects if not isinstance(e, RefEffect)}
    for eqn in eqns:
        for effect in eqn.effects:
            if isinstance(effect, RefEffect):
                position = positions.get(eqn.invars[effect.input_index])
                if position is not None:
                    found.add(type(effect)(position))
    return frozenset(found)


class ClosedJaxpr(_Program):
    """A jaxpr with values for its constvars. Equal by identity.

    >>> closed = pyjax.make_jaxpr(lambda x: 2 * x)(1.0)
    >>> isinstance(closed, ClosedJaxpr), closed.consts, closed.in_avals
    (True, [], [ShapedArray(float32[], weak_type=True)])
    """

    __slots__ = ("__weakref__", "_in_avals", "_out_avals", "consts", "jaxpr")

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any] = ()) -> None:
        if len(jaxpr.constvars) != len(consts):
            raise new_error(
                ValueError, f"{len(consts)} consts for {len(jaxpr.constvars)} constvars"
            )
        self.jaxpr = jaxpr
        self.consts = list(consts)
        self._in_avals: list[Any] | None = None
        self._out_avals: list[Any] | None = None

    @property
    def in_avals(self) -> list[Any]:
        if self._in_avals is None:
            self._in_avals = [v.aval for v in self.jaxpr.invars]
        return self._in_avals

    @property
    def out_avals(self) -> list[Any]:
        if self._out_avals is None:
            self._out_avals = [v.aval for v in self.jaxpr.outvars]
        return self._out_avals

    @property
    def eqns(self) -> list[JaxprEqn]:
        return self.jaxpr.eqns

    @property
    def invars(self) -> list[Var]:
        return self.jaxpr.invars

    @property
    def outvars(self) -> list[Any]:
        return self.jaxpr.outvars

    @property
    def constvars(self) -> list[Var]:
        return self.jaxpr.constvars

    @property
    def debug_info(self) -> DebugInfo:
        return self.jaxpr.debug_info

    def map_jaxpr(self, f: Callable[[Jaxpr], Jaxpr]) -> ClosedJaxpr:
        """With another jaxpr and the same constants."""
        return ClosedJaxpr(f(self.jaxpr), self.consts)

    @property
    def effects(self) -> Effects:
        return self.jaxpr.effects

    @property
    def literals(self) -> list[Any]:
        return self.consts

    def replace(
        self, *, jaxpr: Jaxpr | None = None, consts: Sequence[Any] | None = None
    ) -> ClosedJaxpr:
        return ClosedJaxpr(
            self.jaxpr if jaxpr is None else jaxpr, self.consts if consts is None else consts
        )

    def eval(self, *args: Any) -> list[Any]:
        """Bind every equation under the current trace."""
        return eval_jaxpr(self.jaxpr, self.consts, *args)


# What core.jaxpr_text has, which imports this module.
_printer: list[Callable[..., str]] = []


def _to_text(
    x: Any, use_color: bool | None = None, source_info: bool = False, name_stack: bool = False
) -> str:
    if not _printer:
        return object.__repr__(x)
    return _printer[0](x, use_color, source_info, name_stack)


def install_printer(printer: Callable[..., str]) -> None:
    """Set the function behind `str(jaxpr)`."""
    _printer[:] = [printer]


# -- evaluation -----------------------------------------------------------------------------------


def bind_eqn(eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    """Apply one equation to values."""
    return eqn.primitive.bind_all(*values, **eqn.params)


_WIDTHS = [
    (np.dtype(narrow), np.dtype(wide))
    for narrow, wide in (("i4", "i8"), ("u4", "u8"), ("f4", "f8"), ("c8", "c16"))
]
_OTHER_WIDTH = dict(_WIDTHS) | {wide: narrow for narrow, wide in _WIDTHS}


def _has_other_width(literal: Literal) -> bool:
    """Whether it was recorded where `jax_enable_x64` was not as it is here: its number would be of
    another type."""
    other = _OTHER_WIDTH.get(literal.aval.dtype)
    return other is not None and abstractify(literal.val).dtype == other


_enable_x64 = options.enable_x64.here


def are_of_other_width(atoms: Sequence[Any]) -> bool:
    """Whether an operation on `atoms` was recorded where `jax_enable_x64` was not as it is here (in
    a block, perhaps), as far as it matters to them and to what rules compute with."""
    if _enable_x64()[0].value:
        for a in atoms:
            if type(a) is Literal and _has_other_width(a):
                return True
    else:
        for a in atoms:
            if a.aval.is_wide:
                return True
    return False


def as_recorded(
    atoms: Sequence[Any], function: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """`function(*args, **kwargs)` with `jax_enable_x64` as it was where an operation on `atoms` was
    recorded."""
    if are_of_other_width(atoms):
        with options.enable_x64(not _enable_x64()[0].value):
            return function(*args, **kwargs)
    return function(*args, **kwargs)


def _result(literal: Literal) -> Any:
    """Its value, of the type that was recorded."""
    if not _has_other_width(literal):
        return literal.val
    dtype, weak_type = literal.aval.dtype, literal.aval.weak_type
    with options.enable_x64(not options.enable_x64.value):
        return convert_element_type_p.bind1(
            literal.val, new_dtype=dtype, weak_type=weak_type, sharding=None
        )


def eval_jaxpr(
    jaxpr: Jaxpr,
    consts: Sequence[Any],
    *args: Any,
    apply: Callable[[JaxprEqn, Sequence[Any]], Sequence[Any]] = bind_eqn,
    propagate_source_info: bool = True,
) -> list[Any]:
    """Bind the equations one by one under the current trace; outputs as a list.

    Args:
      apply: `apply(eqn, values)` gives an equation's results, to treat some of them in another way.
      propagate_source_info: operations keep the places that they were recorded at; else theirs is
        that of whoever calls this.
    """
    if len(args) != len(jaxpr.invars):
        raise new_error(
            TypeError, f"eval_jaxpr: {len(args)} arguments for {len(jaxpr.invars)} inputs"
        )
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, consts))
    env.update(zip(jaxpr.invars, args))
    last_use = last_used(jaxpr)
    outer_frame = override.frame
    replay = Replay()
    try:
        for eqn in jaxpr.eqns:
            values = [a.val if type(a) is Literal else env[a] for a in eqn.invars]
            for dead in last_use.get(id(eqn), ()):
                del env[dead]  # free buffers as soon as the program allows
            if propagate_source_info:
                override.frame = replay.at(eqn.source)
            if are_of_other_width(eqn.invars):
                outs = as_recorded(eqn.invars, apply, eqn, values)
            else:
                outs = apply(eqn, values)
            for v, out in zip(eqn.outvars, outs):
                env[v] = out
    finally:
        override.frame = outer_frame
    return [_result(a) if type(a) is Literal else env[a] for a in jaxpr.outvars]


def last_used(jaxpr: Jaxpr) -> dict[int, list[Var]]:
    """Which variables each equation (by id) is the last to read; outputs are not among them."""
    seen: set[Var] = {v for v in jaxpr.outvars if type(v) is not Literal}
    result: dict[int, list[Var]] = {}
    for eqn in reversed(jaxpr.eqns):
        dead = []
        for a in eqn.invars:
            if type(a) is not Literal and a not in seen:
                seen.add(a)
                dead.append(a)
        if dead:
            result[id(eqn)] = dead
    return result


def jaxpr_as_fun(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    """A function of the flat inputs that evaluates the jaxpr.

    >>> closed = pyjax.make_jaxpr(lambda x: 2 * x)(1.0)
    >>> jaxpr_as_fun(closed)(3.0)
    [Array(6., dtype=float32, weak_type=True)]
    """

    def fun(*args: Any) -> list[Any]:
        return eval_jaxpr(closed.jaxpr, closed.consts, *args)

    fun.__name__ = "jaxpr"
    return fun


# -- walking --------------------------------------------------------------------------------------


_MAY_HOLD_JAXPRS = frozenset({Jaxpr, ClosedJaxpr, tuple, list})


def jaxprs_in_params(params: dict[str, Any]) -> Iterator[Jaxpr]:
    """Jaxprs among the parameters of an equation.

    >>> (eqn,) = pyjax.make_jaxpr(pyjax.jit(lambda x: 2 * x))(1.0).eqns
    >>> len(list(jaxprs_in_params(eqn.params)))
    1
    """
    for value in params.values():
        for item in value if type(value) in (tuple, list) else (value,):
            if type(item) is Jaxpr:
                yield item
            elif type(item) is ClosedJaxpr:
                yield item.jaxpr


def subjaxprs(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """Jaxprs directly inside the equations of a jaxpr.

    >>> jaxpr = pyjax.make_jaxpr(pyjax.jit(lambda x: 2 * x))(1.0).jaxpr
    >>> len(list(subjaxprs(jaxpr)))
    1
    """
    for eqn in jaxpr.eqns:
        for value in eqn.params.values():
            if type(value) in _MAY_HOLD_JAXPRS:
                yield from jaxprs_in_params(eqn.params)
                break


def count_eqns(jaxpr: Jaxpr) -> int:
    """Equations, nested ones included."""
    return len(jaxpr.eqns) + sum(count_eqns(j) for j in subjaxprs(jaxpr))
