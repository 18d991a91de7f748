"""What a program is made from, as a digest that is the same in every process: programs with equal
digests are lowered to the same module, so that what was compiled of one is found without lowering.

The digest has all that lowering looks at: equations in their order, types, parameters and constants
by type and bits, attributes for the compiler, the options in force that tracing depends on. It has
no names of variables and no source locations, as compiled code has none. What means something in
this process only (a function that is not pyjax's own, an object without a rule here, a rule for
lowering that somebody else wrote) has no digest, and neither has a program with it.
Layer: interpreters.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import marshal
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from pyjax._config.registry import ContextKey, trace_context
from pyjax.core import axis_env
from pyjax.core.array import Array
from pyjax.core.avals import AbstractToken, AbstractValue, ShapedArray
from pyjax.core.dtypes import float0
from pyjax.core.extended_dtypes import KeyDType
from pyjax.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from pyjax.core.primitive import Primitive
from pyjax.core.trace import Tracer
from pyjax.interpreters.hlo import constant_array
from pyjax.interpreters.rules import (
    all_primitives,
    lowered_parameters,
    lowering_rules,
)
from xla_backend.hlo.attributes import Value

# Where primitives are lowered. The digest of the sources of these is a part of every key
# (`runtime/module_sources.py`); rules of other packages have none.
ROOMS = ("core", "interpreters", "sharding", "runtime", "lax", "api", "parallel")
_PACKAGE = __name__.partition(".")[0]
_OWN = (f"{_PACKAGE}.",)
_PREFIXES = tuple(f"{_PACKAGE}.{room}." for room in ROOMS)
_KNOWN = (*_PREFIXES, "xla_backend.")
_LIBRARIES = ("builtins", "numpy", "ml_dtypes")
# Written as they are: no value that is written as a tuple equals one of these.
_PLAIN = frozenset({int, str, float, complex, bool, bytes, type(None)})
# The one before `marshal` wrote what objects are shared, which differs between equal values.
_FORMAT = 2


class OnlyHere(Exception):
    """Something means nothing in another process; args: what."""


def digest_of(value: Any) -> str | None:
    """A digest of a value, which may have programs in it, and of the options in force; None: there
    is none.

    >>> of = lambda f, *xs: digest_of(pyjax.make_jaxpr(f)(*xs))
    >>> of(lambda x: x * 2, 1.0) == of(lambda y: y * 2, 5.0)
    True
    >>> of(lambda x: x * 2, 1.0) == of(lambda x: x * 3, 1.0)
    False
    """
    if axis_env.key() or not _are_rules_own():
        return None
    try:
        written = (_Writer().value(value), _options_in_force())
    except OnlyHere:
        return None
    return hashlib.sha256(marshal.dumps(written, _FORMAT)).hexdigest()


# The latest key of options, and what it is written as.
_written_options: tuple[ContextKey | None, Any] = (None, ())


def _options_in_force() -> Any:
    global _written_options
    context = trace_context()
    known, written = _written_options
    if known is not context:
        written = _Writer().value(context.of_tracing())
        _written_options = (context, written)
    return written


class _Writer:
    """Makes tuples of plain values, which differ for values that differ."""

    def __init__(self) -> None:
        # What was written already, by its number: sharing is a part of a program.
        self._jaxprs: dict[int, int] = {}
        self._alive: list[Any] = []
        self._avals: dict[Any, Any] = {}
        self._names: dict[Primitive, str] = {}

    def aval(self, aval: Any) -> Any:
        found = self._avals.get(aval)
        if found is None:
            found = self._avals[aval] = _written_aval(aval)
        return found

    def value(self, value: Any) -> Any:
        kind: Any = type(value)
        if kind in _PLAIN:
            return value
        if kind is tuple:
            return ("(", *[v if type(v) in _PLAIN else self.value(v) for v in value])
        rule = _rules.get(kind) or _rule_for(kind)
        return rule(self, value)

    def values(self, values: Any) -> list[Any]:
        return [v if type(v) in _PLAIN else self.value(v) for v in values]

    def closed(self, closed: ClosedJaxpr) -> Any:
        number = self._jaxprs.get(id(closed))
        if number is not None:
            return ("=", number)
        jaxpr = closed.jaxpr
        written = (
            "closed",
            *[self._constant(c, v.aval) for c, v in zip(closed.consts, jaxpr.constvars)],
            self.jaxpr(jaxpr),
        )
        self._number(closed)
        return written

    def jaxpr(self, jaxpr: Jaxpr) -> Any:
        number = self._jaxprs.get(id(jaxpr))
        if number is not None:
            return ("=", number)
        if jaxpr.effects:
            raise OnlyHere("a program with effects")
        inputs = (*jaxpr.constvars, *jaxpr.invars)
        numbers: dict[Any, int] = {v: i for i, v in enumerate(inputs)}
        equations = [self._equation(eqn, numbers) for eqn in jaxpr.eqns]
        written = (
            "jaxpr",
            len(jaxpr.constvars),
            (*[self.aval(v.aval) for v in inputs],),
            (*equations,),
            (*[self._atom(a, numbers) for a in jaxpr.outvars],),
        )
        self._number(jaxpr)
        return written

    def _number(self, program: Any) -> None:
        self._jaxprs[id(program)] = len(self._alive)
        self._alive.append(program)

    def _equation(self, eqn: JaxprEqn, numbers: dict[Any, int]) -> Any:
        primitive = eqn.primitive
        name = self._names.get(primitive)
        if name is None:
            name = self._names[primitive] = _name_of(primitive)
        # Lists are written as tuples are, and each digest is made of one written program.
        operands = [numbers[a] if type(a) is not Literal else self._literal(a) for a in eqn.invars]
        avals = self._avals
        results = []
        for v in eqn.outvars:
            numbers[v] = len(numbers)
            aval = v.aval
            results.append(avals[aval] if aval in avals else self.aval(aval))
        params = eqn.params
        read = lowered_parameters.get(primitive)
        if read is not None:
            params = {name: params[name] for name in read}
        written: list[Any] = []
        for key, value in params.items():
            kind = type(value)
            if kind in _PLAIN:
                written += (key, value)
            elif kind is tuple and _PLAIN.issuperset(map(type, value)):
                written += (key, ("(", *value))
            else:
                written += (key, self.value(value))
        source = eqn.source
        attributes = self.value(source.attributes) if source and source.attributes else None
        return (name, operands, results, written, attributes)

    def _atom(self, atom: Any, numbers: dict[Any, int]) -> Any:
        return self._literal(atom) if type(atom) is Literal else numbers[atom]

    def _literal(self, literal: Literal) -> Any:
        return (self.value(literal.val), self.aval(literal.aval))

    def _constant(self, value: Any, aval: Any) -> Any:
        if isinstance(value, Tracer):
            raise OnlyHere("a traced value")
        return (self.aval(aval), _data(constant_array(value, aval)))


def _name_of(primitive: Primitive) -> str:
    """The name of a primitive, if it is pyjax's own, and so is the way it is lowered."""
    name = primitive.name
    if all_primitives.get(name) is not primitive or not _is_in(
        _PREFIXES, lowering_rules.get(primitive)
    ):
        raise OnlyHere(f"the primitive {name}")
    return name


def _is_in(prefixes: tuple[str, ...], rule: Any) -> bool:
    return type(rule) is FunctionType and (rule.__module__ or "").startswith(prefixes)


# After how many changes of the table rules were looked at, and whether all were pyjax's.
_rules_seen: tuple[int, bool] = (-1, False)


def _are_rules_own() -> bool:
    """Whether nobody has given a primitive of pyjax another rule: rules for lowering use others, so
    that none says by itself what it does."""
    global _rules_seen
    changes = lowering_rules.changes
    if _rules_seen[0] != changes:
        defined = [*lowering_rules.first.items()]
        own = all(
            _is_in(_OWN, lowering_rules.get(primitive))
            for primitive, rule in defined
            if _is_in(_OWN, rule)
        )
        _rules_seen = (changes, own)
    return _rules_seen[1]


def _written_aval(aval: AbstractValue) -> Any:
    if type(aval) is AbstractToken:
        return ("token",)
    if type(aval) is not ShapedArray or any(type(n) is not int for n in aval.shape):
        raise OnlyHere(f"a value of type {aval}")
    dtype = aval.dtype
    written = _of_dtype(None, dtype) if isinstance(dtype, np.dtype) else _Writer().value(dtype)
    return (*aval.shape, written, aval.weak_type)


def _data(array: np.ndarray) -> Any:
    """The elements of an array, in row-major order."""
    data = array.tobytes()
    digest = data if len(data) <= 64 else hashlib.sha256(data).digest()
    return ("data", array.dtype.name, *array.shape, len(data), digest)


# -- rules for kinds of values ---------------------------------------------------------------------

_Rule = Callable[[_Writer, Any], Any]


def _place(value: Any) -> tuple[str, str]:
    """Where a class or function stands in its module, if that is known to every process."""
    module, name = value.__module__ or "", value.__qualname__  # `exec` gives functions no module
    known = isinstance(value, type) and module in _LIBRARIES
    if not (known or module.startswith(_KNOWN)) or "<" in name:
        raise OnlyHere(f"{module}.{name}")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not value:
        raise OnlyHere(f"{module}.{name}")
    return module, name


def _of_dtype(_: Any, dtype: np.dtype) -> Any:
    return _written_dtype(dtype)


@functools.lru_cache(maxsize=256)
def _written_dtype(dtype: np.dtype) -> Any:
    if dtype == float0:
        return ("float0",)
    if dtype.fields is not None or dtype.subdtype is not None or not dtype.isnative:
        raise OnlyHere(f"the type {dtype}")
    return ("dtype", dtype.type.__module__, dtype.name)


def _of_array(writer: _Writer, array: Any) -> Any:
    if isinstance(array, Tracer):
        raise OnlyHere("a traced value")
    return ("array", writer.aval(array.aval), _data(constant_array(array, array.aval)))


_rules: dict[type, _Rule] = {
    list: lambda w, v: ("[", *w.values(v)),
    dict: lambda w, v: ("{", *[(*w.values(item),) for item in v.items()]),
    frozenset: lambda w, v: ("<", *sorted([marshal.dumps(w.value(x), _FORMAT) for x in v])),
    slice: lambda w, v: ("slice", *w.values((v.start, v.stop, v.step))),
    range: lambda w, v: ("range", v.start, v.stop, v.step),
    type(Ellipsis): lambda w, v: ("...",),
    ClosedJaxpr: _Writer.closed,
    Jaxpr: _Writer.jaxpr,
    ShapedArray: lambda w, v: ("aval", w.aval(v)),
    AbstractToken: lambda w, v: ("aval", w.aval(v)),
    KeyDType: lambda w, v: ("key", w.value(v.impl)),
    Primitive: lambda w, v: ("primitive", _name_of(v)),
    np.ndarray: lambda w, v: ("ndarray", w.value(v.dtype), _data(v)),
    FunctionType: lambda w, v: ("function", *_place(v)),
}


def _of_record(names: tuple[str, ...]) -> _Rule:
    def rule(writer: _Writer, value: Any) -> Any:
        fields = [getattr(value, name) for name in names]
        return ("record", *_place(type(value)), *writer.values(fields))

    return rule


@functools.lru_cache(maxsize=1024)
def _rule_for(cls: type) -> _Rule:
    if issubclass(cls, enum.Enum):
        return lambda w, v: ("enum", *_place(type(v)), v.name)
    if issubclass(cls, np.dtype):
        return _of_dtype
    if issubclass(cls, np.generic):
        return lambda w, v: ("scalar", w.value(v.dtype), v.tobytes())
    if issubclass(cls, type):
        return lambda w, v: ("class", *_place(v))
    if issubclass(cls, Array):
        return _of_array
    named = getattr(cls, "_fields", None)
    if issubclass(cls, tuple) and named is not None:
        return _of_record(named)
    if issubclass(cls, Value):
        return _of_record(cls._fields)
    if dataclasses.is_dataclass(cls):
        return _of_record(tuple(f.name for f in dataclasses.fields(cls)))
    if issubclass(cls, Primitive):
        return _rules[Primitive]
    return _refused


def _refused(_: _Writer, value: Any) -> Any:
    raise OnlyHere(f"a {type(value).__module__}.{type(value).__qualname__}")
