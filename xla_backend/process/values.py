"""Small immutable records, which cost next to nothing to define."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, ClassVar, Self, dataclass_transform


@dataclass_transform(frozen_default=True)
class Value:
    """Base of small immutable records: fields are the class annotations, in order.

    A lighter `dataclass(frozen=True)`: that decorator compiles five methods for each class, which
    was a third of the time it took to import pyjax.
    """

    # Beside the fields, not among them: records are keys of caches, and some have fifty fields.
    __slots__ = ("_hash",)

    _hash: int
    _fields: ClassVar[tuple[str, ...]] = ()
    _defaults: ClassVar[dict[str, Any]] = {}
    # What hashes see of the fields: of one field its value, of more a tuple.
    _pick: ClassVar[Callable[[dict[str, Any]], Any]] = tuple

    def __init_subclass__(cls) -> None:
        names = tuple(n for n in cls.__annotations__ if not n.startswith("_"))
        cls._fields = names
        cls._defaults = {n: cls.__dict__[n] for n in names if n in cls.__dict__}
        if names:
            cls._pick = itemgetter(*names)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        fields = self._fields
        values = self.__dict__
        if len(args) == len(fields) and not kwargs:
            values.update(zip(fields, args))
            return
        if len(args) > len(fields):
            raise TypeError(f"{type(self).__name__} has {len(fields)} fields, got {len(args)}")
        values.update(self._defaults)
        values.update(zip(fields, args))
        values.update(kwargs)
        if len(values) != len(fields):
            missing = [n for n in fields if n not in values]
            unknown = [n for n in values if n not in fields]
            raise TypeError(f"{type(self).__name__}: missing {missing}, unknown {unknown}")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def _replace(self, **changes: Any) -> Self:
        """Another one, with some fields changed."""
        return type(self)(**{**self.__dict__, **changes})

    def _asdict(self) -> dict[str, Any]:
        """The fields by name, as they are."""
        return {name: self.__dict__[name] for name in self._fields}

    def _key(self) -> tuple[Any, ...]:
        values = self.__dict__
        return tuple([values[n] for n in self._fields])

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is type(self) and self.__dict__ == other.__dict__)

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            cls = type(self)
            found = hash((cls, cls._pick(self.__dict__)))
            _set_hash(self, found)
            return found

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__  # hashes differ between processes

    def __repr__(self) -> str:
        body = ", ".join(f"{n}={self.__dict__[n]!r}" for n in self._fields)
        return f"{type(self).__name__}({body})"


# Assigning raises.
_set_hash = Value.__dict__["_hash"].__set__
