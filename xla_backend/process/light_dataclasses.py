"""Dataclasses that cost next to nothing to define: the first program of a process defines some
seventy, of which it uses a few.

The standard decorator compiles up to six methods for each class, from text. Here most of them are
closures, which need no compiling, and `__init__` is compiled when somebody first asks for it.
Nothing else differs: `fields`, `replace` and `asdict` of `dataclasses` take such classes, and
standard dataclasses may derive from them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, FrozenInstanceError, field
from operator import attrgetter
from reprlib import recursive_repr
from types import MethodType
from typing import Any, dataclass_transform

__all__ = ["METHODS", "dataclass", "field"]

# Name, annotation, what `field` made of it.
_Fields = dict[str, tuple[Any, "Field[Any]"]]
_OURS = "_light_fields"
_set = object.__setattr__


@dataclass_transform(field_specifiers=(Field, field))
def dataclass(
    cls: type | None = None,
    /,
    *,
    init: bool = True,
    repr: bool = True,
    eq: bool = True,
    frozen: bool = False,
    slots: bool = False,
) -> Any:
    """`dataclasses.dataclass`, with these of its options.

    >>> @dataclass(frozen=True, slots=True)
    ... class Point:
    ...     x: int
    ...     y: int = 2
    >>> Point(1), Point(1) == Point(1, 2)
    (Point(x=1, y=2), True)
    """
    options = {"init": init, "repr": repr, "eq": eq, "frozen": frozen}

    def define(cls: type) -> type:
        return _defined(cls, options, slots)

    return define if cls is None else define(cls)


def _defined(cls: type, options: dict[str, bool], slots: bool) -> type:
    own = dict(_own_fields(cls))
    fields: _Fields = {}
    for base in reversed(cls.__mro__[1:]):
        if "__dataclass_fields__" in vars(base) and _OURS not in vars(base):
            raise TypeError(
                f"{cls.__name__} is light, its base {base.__name__} a standard dataclass"
            )
        fields |= vars(base).get(_OURS, {})
    fields |= own
    _check_defaults(cls, fields)
    for name, (_, kept) in own.items():
        if kept.default is MISSING or slots:
            if name in vars(cls):
                delattr(cls, name)
        else:
            setattr(cls, name, kept.default)
    if slots:
        cls = _with_slots(cls, own)
    for name, method in _methods(cls, fields, options, slots):
        if name not in vars(cls) or (name == "__hash__" and _hash_came_with_eq(cls)):
            setattr(cls, name, method)
    setattr(cls, _OURS, fields)
    setattr(cls, "__match_args__", tuple([n for n, (_, f) in fields.items() if f.init]))  # noqa: B010
    for name in ("__dataclass_fields__", "__dataclass_params__"):
        setattr(cls, name, _OfDataclass(cls, name, fields, options))
    return cls


def _own_fields(cls: type) -> Iterator[tuple[str, tuple[Any, Field[Any]]]]:
    for name, annotation in vars(cls).get("__annotations__", {}).items():
        if "ClassVar" in str(annotation).partition("[")[0]:
            continue
        given = vars(cls).get(name, MISSING)
        yield name, (annotation, given if isinstance(given, Field) else field(default=given))


def _check_defaults(cls: type, fields: _Fields) -> None:
    before = ""
    for name, (_, of_field) in fields.items():
        if of_field.default is not MISSING and type(of_field.default).__hash__ is None:
            raise ValueError(
                f"{cls.__name__}.{name}: objects would share it, write default_factory"
            )
        if of_field.default is not MISSING or of_field.default_factory is not MISSING:
            before = before or name if of_field.init else before
        elif of_field.init and before:
            raise TypeError(f"{cls.__name__}.{name} needs a default, for {before} has one")


def _with_slots(cls: type, own: _Fields) -> type:
    """The class once more: slots are made with a class, or not at all."""
    inherited = {name for base in cls.__mro__[1:] for name in vars(base).get("__slots__", ())}
    without = {*own, "__dict__", "__weakref__"}
    namespace = {name: value for name, value in vars(cls).items() if name not in without}
    namespace["__slots__"] = tuple([name for name in own if name not in inherited])
    again = type(cls)(cls.__name__, cls.__bases__, namespace)
    again.__qualname__ = cls.__qualname__
    return again


def _hash_came_with_eq(cls: type) -> bool:
    """Python sets it to None in a class that has `__eq__`."""
    return vars(cls)["__hash__"] is None and "__eq__" in vars(cls)


# -- methods ---------------------------------------------------------------------------------------


def _methods(
    cls: type, fields: _Fields, options: dict[str, bool], slots: bool
) -> Iterator[tuple[str, Any]]:
    frozen = options["frozen"]
    if options["init"]:
        yield "__init__", _LateInit(cls, fields, frozen, slots)
    if options["repr"]:
        yield "__repr__", _shown([name for name, (_, f) in fields.items() if f.repr])
    if options["eq"]:
        yield "__eq__", _equality(_values([name for name, (_, f) in fields.items() if f.compare]))
        hashed = [n for n, (_, f) in fields.items() if (f.compare if f.hash is None else f.hash)]
        yield "__hash__", _hashed(_values(hashed)) if frozen else None
    if frozen:
        yield "__setattr__", _refusal(cls, frozenset(fields), "assign to", super(cls, cls))
        yield "__delattr__", _refusal(cls, frozenset(fields), "delete", super(cls, cls))
        if slots:
            names = tuple(fields)
            yield "__getstate__", lambda self: [getattr(self, name) for name in names]
            yield "__setstate__", lambda self, state: _restore(self, names, state)


def _values(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple([getattr(value, name) for name in names])


def _equality(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, Any], bool]:
    def __eq__(self: Any, other: Any) -> bool:
        if other.__class__ is self.__class__:
            return values(self) == values(other)
        return NotImplemented

    return __eq__


def _hashed(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


def _shown(names: list[str]) -> Callable[[Any], str]:
    @recursive_repr()
    def __repr__(self: Any) -> str:
        body = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{type(self).__qualname__}({body})"

    return __repr__


def _refusal(cls: type, names: frozenset[str], what: str, above: Any) -> Callable[..., None]:
    go_on = above.__setattr__ if what == "assign to" else above.__delattr__

    def refuse(self: Any, name: str, *value: Any) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot {what} field {name!r}")
        go_on(self, name, *value)

    return refuse


def _restore(value: Any, names: tuple[str, ...], state: list[Any]) -> None:
    for name, of_field in zip(names, state):
        _set(value, name, of_field)


class _LateInit:
    """`__init__` of a class: it is compiled when somebody asks for it, be it for an object or for
    what its parameters are."""

    def __init__(self, cls: type, fields: _Fields, frozen: bool, slots: bool) -> None:
        self._cls = cls
        self._given = fields, frozen, slots

    def __get__(self, instance: object, owner: type) -> Callable[..., None]:
        cls = self._cls
        # Threads that come here at the same time compile the same.
        method = _compiled_init(cls, *self._given)
        if vars(cls).get("__init__") is self:  # not what somebody has put there instead
            cls.__init__ = method  # type: ignore[misc]
        return method if instance is None else MethodType(method, instance)


class _Factory:
    """The default of parameters whose fields have a `default_factory`."""

    def __repr__(self) -> str:
        return "<factory>"


_MADE = _Factory()


def _compiled_init(cls: type, fields: _Fields, frozen: bool, slots: bool) -> Callable[..., None]:
    parameters, lines = ["self"], []
    names: dict[str, Any] = {"_set": _set, "_made": _MADE}
    annotations: dict[str, Any] = {}
    for name, (annotation, of_field) in fields.items():
        names[f"_default_{name}"] = of_field.default
        value, default = name, ""
        if of_field.default_factory is not MISSING:
            names[f"_make_{name}"] = of_field.default_factory
            made = f"_make_{name}()"
            value = f"{made} if {name} is _made else {name}" if of_field.init else made
            default = " = _made"
        elif of_field.default is not MISSING:
            default = f" = _default_{name}"
            value = name if of_field.init else f"_default_{name}"
        if of_field.init:
            parameters.append(name + default)
            annotations[name] = annotation
        elif not default or (of_field.default is not MISSING and not slots):
            continue
        lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    body = "\n ".join(lines or ["pass"])
    exec(f"def __init__({', '.join(parameters)}):\n {body}\n", names)
    method: Callable[..., None] = names["__init__"]
    method.__qualname__ = f"{cls.__qualname__}.__init__"
    method.__module__ = cls.__module__
    method.__annotations__ = {**annotations, "return": None}
    return method


# The code of the closures above, by which keys of caches know such methods from others.
METHODS = frozenset({method.__code__ for method in (_equality(tuple), _hashed(tuple))})


class _OfDataclass:
    """What `dataclasses` looks for in a class, from a standard one of equal fields."""

    def __init__(self, owner: type, name: str, fields: _Fields, options: dict[str, bool]) -> None:
        self._owner = owner
        self._name = name
        self._fields = fields
        self._options = options

    def __get__(self, instance: object, owner: type) -> Any:
        # A field is of one dataclass: the standard one gets copies.
        copies = [
            (name, annotation, _copy(of_field))
            for name, (annotation, of_field) in self._fields.items()
        ]
        # No methods, and the class has a docstring: nothing is compiled.
        made = dataclasses.make_dataclass(
            self._owner.__name__,
            copies,
            namespace={"__doc__": ""},
            init=False,
            repr=False,
            eq=False,
            frozen=self._options["frozen"],
        )
        found = getattr(made, self._name)
        setattr(self._owner, self._name, found)
        return found


def _copy(of_field: Field[Any]) -> Field[Any]:
    names = ("default", "default_factory", "init", "repr", "hash", "compare", "metadata")
    copied: Field[Any] = field(**{name: getattr(of_field, name) for name in names})
    return copied
