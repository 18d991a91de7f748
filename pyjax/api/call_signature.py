"""Which arguments of a function are static or donated, and splitting a call accordingly."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from pyjax.core.errors import UnhashableStaticError, new_error
from pyjax.core.exact_keys import exact_key
from pyjax.core.signatures import parameters_of, positional_names
from pyjax.interpreters.flat_function import Static


def _as_ints(what: str, value: int | Iterable[int] | None) -> tuple[int, ...]:
    if value is None:
        return ()
    if isinstance(value, int):
        return (value,)
    result = tuple(value)
    if not all(isinstance(i, int) for i in result):
        raise new_error(TypeError, f"{what} must be an int or a sequence of ints, got {value!r}")
    return result


def _as_names(what: str, value: str | Iterable[str] | None) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    result = tuple(value)
    if not all(isinstance(n, str) for n in result):
        raise new_error(TypeError, f"{what} must be a str or a sequence of strs, got {value!r}")
    return result


class CallSignature:
    """Static and donated arguments of a function, by position and by name.

    Naming an argument one way also finds it when it is passed the other way, where the function's
    Python signature can be read.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        static_argnums: int | Iterable[int] | None,
        static_argnames: str | Iterable[str] | None,
        donate_argnums: int | Iterable[int] | None = None,
        donate_argnames: str | Iterable[str] | None = None,
    ) -> None:
        self.name = getattr(fun, "__name__", type(fun).__name__)
        self._parameters = parameters_of(fun)
        self._positional_names = positional_names(fun)
        self._takes_any = any(p.kind is p.VAR_POSITIONAL for p in self._parameters)
        self.static_argnums, self.static_argnames = self._resolve(
            "static", static_argnums, static_argnames
        )
        self.donate_argnums, self.donate_argnames = self._resolve(
            "donate", donate_argnums, donate_argnames
        )
        self.has_static = bool(self.static_argnums or self.static_argnames)
        self.has_donated = bool(self.donate_argnums or self.donate_argnames)
        if not (self.has_static and self.has_donated):
            return
        both = set(self.static_argnums) & set(self.donate_argnums)
        if both:
            raise new_error(
                ValueError,
                f"arguments {sorted(both)} of {self.name} are both static and donated; "
                "static arguments have no buffer to donate",
            )

    @property
    def settings(self) -> Hashable:
        """Equal for signatures of one function that split and donate alike."""
        return (
            self.static_argnums,
            self.static_argnames,
            self.donate_argnums,
            self.donate_argnames,
        )

    def takes(self, name: str) -> bool:
        """Whether an argument may have this name, as far as the function's signature tells."""
        named = any(p.name == name or p.kind is p.VAR_KEYWORD for p in self._parameters)
        return named or not self._parameters

    def _resolve(
        self, what: str, argnums: int | Iterable[int] | None, argnames: str | Iterable[str] | None
    ) -> tuple[tuple[int, ...], tuple[str, ...]]:
        if argnums is None and argnames is None:
            return (), ()
        numbers = _as_ints(f"{what}_argnums", argnums)
        names = _as_names(f"{what}_argnames", argnames)
        count = len(self._positional_names)
        if self._parameters:
            accepted = {p.name for p in self._parameters}
            takes_any_name = any(p.kind is p.VAR_KEYWORD for p in self._parameters)
            for name in names:
                if name not in accepted and not takes_any_name:
                    raise new_error(
                        ValueError,
                        f"{what}_argnames names {name!r}, but {self.name} has no such parameter; "
                        f"its parameters are {', '.join(sorted(accepted)) or 'none'}",
                        "A misspelt name would leave an argument traced.",
                        "Name a parameter of the function.",
                    )
            for number in numbers:
                if not self._takes_any and not -count <= number < count:
                    raise new_error(
                        ValueError,
                        f"{what}_argnums has {number}, but {self.name} has only {count} "
                        "positional parameters",
                        f"They are numbered from 0 to {count - 1}.",
                        f"Use one of these numbers, or {what}_argnames.",
                    )
            numbers = tuple(n % count if n < 0 and count else n for n in numbers)
            if argnames is None:
                names = tuple(
                    self._positional_names[n]
                    for n in numbers
                    if n < count
                    and self._parameters[n].kind is not inspect.Parameter.POSITIONAL_ONLY
                )
            elif argnums is None:
                numbers = tuple(i for i, name in enumerate(self._positional_names) if name in names)
        return numbers, names

    def split(
        self, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any], Static]:
        """(dynamic args, dynamic kwargs, static part): `static_key` makes a key of the last, and
        `with_static` undoes the splitting."""
        static: list[tuple[int | str, Any]] = []
        dynamic = []
        for i, value in enumerate(args):
            if i in self.static_argnums or (i - len(args)) in self.static_argnums:
                static.append((i, value))
            else:
                dynamic.append(value)
        rest = {}
        for name, value in kwargs.items():
            if name in self.static_argnames:
                static.append((name, value))
            else:
                rest[name] = value
        return tuple(dynamic), rest, tuple(static)

    def static_key(self, static: Static) -> Hashable:
        """A key for the static part of a call: equal only for programs that are the same.

        Raises:
          UnhashableStaticError: a static argument has no hash. What else its `__hash__` raises, or
            a signal handler meanwhile, arrives as it is.
        """
        parts: list[Hashable] = []
        for where, value in static:
            try:
                hash(value)
                parts.append((where, exact_key(value)))
            except TypeError as error:
                raise self._unhashable(where, value, error) from error
        return tuple(parts)

    def static_key_if_any(self, static: Static) -> Hashable | None:
        """`static_key`, or None if a static argument has no hash."""
        try:
            return self.static_key(static)
        except UnhashableStaticError:
            return None

    def _unhashable(self, where: int | str, value: Any, error: Exception) -> Exception:
        name = where if isinstance(where, str) else self.argument_name(where)
        return new_error(
            UnhashableStaticError,
            f"static argument {name!r} of {self.name} has type {type(value).__name__}, "
            f"which is not hashable: {error}",
            "the compiled program is looked up by the values of static arguments",
            "pass a hashable value (a tuple instead of a list, a frozen dataclass), "
            "or do not mark the argument static",
        )

    def argument_name(self, position: int) -> str:
        """Name of a positional argument, as far as the Python signature tells."""
        if position < len(self._positional_names):
            return self._positional_names[position]
        return f"args[{position}]"
