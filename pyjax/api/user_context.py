"""Values of users' own that traced functions depend on."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from pyjax._config.registry import Option, Override, unlisted_option
from pyjax.core.errors import new_error


class UserContext:
    """A value that functions may read while they are traced: one for each thread, or task of
    asyncio, and block. `make_user_context` makes it."""

    __slots__ = ("_option",)

    def __init__(self, option: Option) -> None:
        self._option = option

    @property
    def value(self) -> Any:
        """The value in force here."""
        return self._option.value

    def __call__(self, value: Hashable) -> Override:
        """Context manager: `value` is in force in this thread until the block ends.

        Raises:
          TypeError: it is not hashable.
        """
        _check(value)
        return self._option(value)

    def __repr__(self) -> str:
        return f"<{self._option.name}: {self.value!r}>"


def _check(value: Any) -> None:
    try:
        hash(value)
    except TypeError as error:
        raise new_error(
            TypeError,
            f"the value of a user context is {value!r}: {error}",
            "Values are compared with those that functions were traced under.",
            "Give it something hashable, such as a tuple.",
        ) from None


def make_user_context(default_value: Any = None) -> UserContext:
    """A value that functions may read while they are traced, such as a mode of a library.

    A jitted function is traced and compiled once for each value that it is called under; so are the
    bodies of loops, and whatever else is kept between calls. A context lasts as long as the
    process: make one for each purpose, at the top of a module.

    Args:
      default_value: hashable; in force outside of all blocks.
    Returns:
      A UserContext: `context.value` is the value in force, `with context(value): ...` sets it in
      this thread for a block.
    Raises:
      TypeError: the default is not hashable.

    >>> training = pyjax.make_user_context(False)
    >>> f = pyjax.jit(lambda x: x * 2 if training.value else x)
    >>> with training(True):
    ...     print(f(1.0))
    2.0
    >>> print(f(1.0))
    1.0
    """
    _check(default_value)
    return UserContext(unlisted_option("user context", default_value))
