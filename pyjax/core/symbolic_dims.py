"""Sizes of dimensions that are not known yet: polynomials of variables, for programs that are
exported for many shapes.

A size is an integer or a `SymbolicDim`, which stands where integers do: sums, products, exact
quotients and comparisons work, as far as they are the same for all sizes that the constraints
allow. With anything else, such as arrays, it is computed with as a scalar of the program. Where
Python needs a number, or a comparison is not decided, an error says so. Only `==` always answers:
sizes that are not known to be equal are different. Layer: core.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

import numpy as np

from pyjax.core.errors import InconclusiveDimensionOperation, JAXTypeError, fail
from pyjax.core.source_info import called_function

# A factor is a variable's name, or an operation and its operands.
Factor = str | tuple[Any, ...]
Monomial = tuple[tuple[Factor, int], ...]  # factors and their powers, sorted
Terms = dict[Monomial, int]
Bound = float  # an integer, or infinite
Bounds = tuple[Bound, Bound]
_INFINITE = float("inf")
LARGEST = (1 << 31) - 1  # value of a variable: indices of 32 bits reach all

# Whether sizes print as they are written into programs, between « and ».
_in_programs: ContextVar[bool] = ContextVar("symbolic sizes in programs", default=False)


@contextmanager
def sizes_in_programs(inside: bool = True) -> Iterator[None]:
    """Sizes print between « and » here."""
    token = _in_programs.set(inside)
    try:
        yield
    finally:
        _in_programs.reset(token)


class Scope:
    """Variables that mean the same in all sizes made with it, and what is known of them.

    Attributes:
      inequalities: sizes that are at least 0.
      constraints: all constraints, as they were written.
    """

    def __init__(self) -> None:
        self.inequalities: list[SymbolicDim] = []
        self.equal: dict[Factor, Any] = {}  # factors that stand for another size
        self.constraints: tuple[str, ...] = ()

    def factor(self, factor: Factor) -> Any:
        """The size that a factor, such as a variable's name, stands for."""
        known = self.equal.get(factor)
        return known if known is not None else SymbolicDim({((factor, 1),): 1}, self)


def _order(factor: Factor) -> tuple[int, str]:
    return (isinstance(factor, tuple), str(factor))


def _make(terms: Terms, scope: Scope) -> Any:
    """The size of these terms: an integer if there is no variable."""
    kept = {m: c for m, c in terms.items() if c}
    if all(m == () for m in kept):
        return kept.get((), 0)
    return SymbolicDim(kept, scope)


def _times(a: Monomial, b: Monomial) -> Monomial:
    powers = dict(a)
    for factor, power in b:
        powers[factor] = powers.get(factor, 0) + power
    return tuple(sorted(powers.items(), key=lambda item: _order(item[0])))


def _over(a: Monomial, b: Monomial) -> Monomial | None:
    """`a / b`, None if it is no monomial."""
    powers = dict(a)
    for factor, power in b:
        left = powers.pop(factor, 0) - power
        if left < 0:
            return None
        if left:
            powers[factor] = left
    return tuple(sorted(powers.items(), key=lambda item: _order(item[0])))


class SymbolicDim:
    """A size that depends on variables. Equal by value within a scope; immutable."""

    __slots__ = ("_hash", "scope", "terms")
    # NumPy leaves operators to this class.
    __array_priority__ = 1000
    ndim = 0  # asked of what may be a sequence

    def __init__(self, terms: Terms, scope: Scope) -> None:
        self.terms = dict(sorted(terms.items(), key=_term_order))
        self.scope = scope
        self._hash = hash((tuple(self.terms.items()), id(scope)))

    # -- arithmetic --------------------------------------------------------------------------------

    def value(self) -> Any:
        """The size as a scalar of the program that is recorded."""
        return _value_of[0](self)

    def _with(self, function: Callable[[Any, Any], Any], other: Any, turned: bool = False) -> Any:
        """An operation with what is no size: arrays do theirs; a number meets the value."""
        if not isinstance(other, (float, complex, np.number, np.ndarray)):
            return NotImplemented
        return function(other, self.value()) if turned else function(self.value(), other)

    def _terms_of(self, other: Any) -> Terms | None:
        if isinstance(other, SymbolicDim):
            if other.scope is not self.scope:
                fail(
                    ValueError,
                    f"{self} and {other} belong to different symbolic scopes",
                    "a name means the same size only within one scope",
                    "make all shapes by one call of symbolic_args_specs, or pass scope= to each",
                )
            return other.terms
        is_index = hasattr(other, "__index__") and not hasattr(other, "aval")
        if is_index and not (isinstance(other, np.ndarray) and other.ndim):
            return {(): int(other)}
        return None

    def __add__(self, other: Any) -> Any:
        terms = self._terms_of(other)
        if terms is None:
            return self._with(operator.add, other)
        total = dict(self.terms)
        for monomial, coefficient in terms.items():
            total[monomial] = total.get(monomial, 0) + coefficient
        return _make(total, self.scope)

    __radd__ = __add__

    def __neg__(self) -> Any:
        return _make({m: -c for m, c in self.terms.items()}, self.scope)

    def __pos__(self) -> Any:
        return self

    def __sub__(self, other: Any) -> Any:
        return self._with(operator.sub, other) if self._terms_of(other) is None else self + -other

    def __rsub__(self, other: Any) -> Any:
        terms = self._terms_of(other)
        return self._with(operator.sub, other, True) if terms is None else -self + other

    def __mul__(self, other: Any) -> Any:
        terms = self._terms_of(other)
        if terms is None:
            return self._with(operator.mul, other)
        total: Terms = {}
        for (a, x), (b, y) in itertools.product(self.terms.items(), terms.items()):
            monomial = _times(a, b)
            total[monomial] = total.get(monomial, 0) + x * y
        return _make(total, self.scope)

    __rmul__ = __mul__

    def __pow__(self, power: Any) -> Any:
        if type(power) is not int or power < 0:
            return self.value() ** power
        result: Any = 1
        for _ in range(power):
            result = result * self
        return result

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return _divmod(self, other, self)

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return _divmod(other, self, self)

    def __floordiv__(self, other: Any) -> Any:
        return divmod(self, other)[0]

    def __rfloordiv__(self, other: Any) -> Any:
        return divmod(other, self)[0]

    def __mod__(self, other: Any) -> Any:
        return divmod(self, other)[1]

    def __rmod__(self, other: Any) -> Any:
        return divmod(other, self)[1]

    # -- as a scalar of the program ----------------------------------------------------------------

    def __truediv__(self, other: Any) -> Any:
        return self.value() / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.value()

    def __jax_array__(self) -> Any:
        return self.value()

    # -- comparisons -------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SymbolicDim):
            return self.scope is other.scope and self.terms == other.terms
        return False

    def __hash__(self) -> int:
        return self._hash

    def __ge__(self, other: Any) -> bool:
        return _decide(self, other)

    def __lt__(self, other: Any) -> bool:
        return not self >= other

    def __gt__(self, other: Any) -> bool:
        return _decide(self, other + 1)

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __bool__(self) -> bool:
        low, high = bounds(self)
        if low > 0 or high < 0:
            return True
        _undecided(f"{self} != 0")

    # -- where a number is needed ------------------------------------------------------------------

    def needed(self) -> NoReturn:
        """Raise, as the size is no number of Python."""
        _no_number(str(self), "an operation that needs the number cannot be exported for all sizes")

    def __index__(self) -> int:
        self.needed()

    def __int__(self) -> int:
        self.needed()

    def __float__(self) -> float:
        self.needed()

    # -- text --------------------------------------------------------------------------------------

    def __str__(self) -> str:
        parts: list[str] = []
        for monomial, coefficient in self.terms.items():
            sign = "-" if coefficient < 0 else "+"
            size = abs(coefficient)
            factors = [_power_text(f, p) for f, p in monomial]
            if size != 1 or not factors:
                factors.insert(0, str(size))
            parts += [sign, "*".join(factors)]
        text = " ".join(parts)
        text = text.removeprefix("+ ").replace("- ", "-", 1) if text[0] == "-" else text[2:]
        return f"«{text}»" if _in_programs.get() else text

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


def _term_order(item: tuple[Monomial, int]) -> tuple[Any, ...]:
    """Of higher degree first, constants last."""
    monomial = item[0]
    return (-sum(p for _, p in monomial), [(_order(f), -p) for f, p in monomial])


def _power_text(factor: Factor, power: int) -> str:
    if isinstance(factor, tuple):
        with sizes_in_programs(False):
            text = f"{factor[0]}({factor[1]}, {factor[2]})"
    else:
        text = factor
    return text if power == 1 else f"{text}^{power}"


def _no_number(what: str, why: str) -> NoReturn:
    fail(
        JAXTypeError,
        f"{called_function()}{what} is a size that is not known when the program is exported, and "
        "a number is needed",
        why,
        "export the function for known sizes, or leave this operation out",
    )


def _undecided(question: str) -> NoReturn:
    fail(
        InconclusiveDimensionOperation,
        f"{called_function()}whether {question} depends on sizes that are not known when the "
        "program is exported",
        "the program must be the same for all sizes that the constraints allow",
        f"add a constraint that decides it, as in symbolic_shape(..., constraints=[{question!r}])",
    )


def checked_size(value: Any) -> Any:
    """A size of a shape: an integer as one of Python, or a symbolic size.

    Raises:
      TypeError: it is neither.
    """
    return value if type(value) is SymbolicDim else operator.index(value)


# -- operations ------------------------------------------------------------------------------------


def _scope_of(*sizes: Any) -> Scope | None:
    return next((s.scope for s in sizes if isinstance(s, SymbolicDim)), None)


def operation(name: str, a: Any, b: Any) -> Any:
    """`floordiv`, `mod`, `max` or `min` of two sizes."""
    scope = _scope_of(a, b)
    if scope is None:
        return _CONCRETE[name](a, b)
    if name in ("max", "min"):
        low, high = bounds(a - b)
        if low >= 0 or high <= 0:
            return a if (low >= 0) == (name == "max") else b
    else:
        return divmod(a, b)[name == "mod"]
    return scope.factor((name, a, b))


_CONCRETE: dict[str, Callable[[Any, Any], Any]] = {
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "max": max,
    "min": min,
}
OPERATIONS = frozenset(_CONCRETE)


def _divmod(a: Any, b: Any, either: SymbolicDim) -> tuple[Any, Any]:
    """Quotient and remainder; exact if every term of `a` is divided by `b`."""
    numerator, divisor = (either._terms_of(x) for x in (a, b))
    if numerator is None or divisor is None:
        return NotImplemented
    scope = either.scope
    if divisor == {(): 0}:
        raise ZeroDivisionError(f"{a} divided by 0")
    quotient, rest = _polynomial_division(numerator, divisor)
    if not rest:
        return _make(quotient, scope), 0
    whole = scope.factor(("floordiv", a, b))
    remainder = scope.factor(("mod", a, b))
    return whole, remainder


def _polynomial_division(numerator: Terms, divisor: Terms) -> tuple[Terms, Terms]:
    """Quotient and rest; the rest is not empty if the division is not exact."""
    lead, scale = min(divisor.items(), key=_term_order)
    quotient: Terms = {}
    rest = {m: c for m, c in numerator.items() if c}
    while rest:
        monomial, coefficient = min(rest.items(), key=_term_order)
        part = _over(monomial, lead)
        if part is None or coefficient % scale:
            break
        quotient[part] = factor = coefficient // scale
        for m, c in divisor.items():
            product = _times(m, part)
            left = rest.get(product, 0) - factor * c
            if left:
                rest[product] = left
            else:
                rest.pop(product, None)
    return quotient, rest


# Installed by what knows operations: the scalar of a program that a size stands for.
_value_of: list[Callable[[SymbolicDim], Any]] = []


def set_value_rule(rule: Callable[[SymbolicDim], Any]) -> None:
    """Set what gives the scalar of a size."""
    _value_of[:] = [rule]


def summands(size: SymbolicDim) -> list[tuple[Any, int]]:
    """The products that a size is a sum of, and the integer that each is multiplied with."""
    return [(_make({monomial: 1}, size.scope), n) for monomial, n in size.terms.items()]


# -- what is known ---------------------------------------------------------------------------------


def bounds(size: Any) -> Bounds:
    """The least and the greatest value that a size may have; infinite if none is known."""
    if not isinstance(size, SymbolicDim):
        return size, size
    low, high = _interval(size)
    for known in (*size.scope.inequalities, *_of_factors(size)):
        # size = (size - known) + known, and known >= 0
        low = max(low, _interval(size - known)[0])
        high = min(high, _interval(size + known)[1])
    return low, high


def _of_factors(size: SymbolicDim) -> Iterator[Any]:
    """What operations in a size say of it beyond intervals, as sizes that are at least 0."""
    for factor in dict.fromkeys(f for f, _ in itertools.chain.from_iterable(size.terms)):
        if isinstance(factor, str):
            continue
        name, a, b = factor
        value = SymbolicDim({((factor, 1),): 1}, size.scope)
        if name == "max":
            yield from (value - a, value - b)
        elif name == "min":
            yield from (a - value, b - value)
        elif _interval(b)[0] > 0:
            rest = value if name == "mod" else a - b * value
            yield from (rest, b - 1 - rest)


def _interval(size: Any) -> Bounds:
    if not isinstance(size, SymbolicDim):
        return size, size
    low: Bound = 0
    high: Bound = 0
    for monomial, coefficient in size.terms.items():
        a, b = _monomial_interval(monomial, size.scope)
        ends = (_product(a, coefficient), _product(b, coefficient))
        low, high = low + min(ends), high + max(ends)
    return low, high


def _product(a: Bound, b: Bound) -> Bound:
    return 0 if a == 0 or b == 0 else a * b


def _monomial_interval(monomial: Monomial, scope: Scope) -> Bounds:
    low: Bound = 1
    high: Bound = 1
    for factor, power in monomial:
        a, b = _factor_interval(factor, scope)
        for _ in range(power):
            ends = [_product(x, y) for x in (low, high) for y in (a, b)]
            low, high = min(ends), max(ends)
    return low, high


def _factor_interval(factor: Factor, scope: Scope) -> Bounds:
    if isinstance(factor, str):
        low: Bound = 1  # variables are sizes of dimensions that are not empty
        high: Bound = LARGEST
        for known in scope.inequalities:  # c * variable + d >= 0
            terms = dict(known.terms)
            constant = terms.pop((), 0)
            coefficient = terms.pop(((factor, 1),), 0)
            if not terms and coefficient > 0:
                low = max(low, -(constant // coefficient))
            elif not terms and coefficient < 0:
                high = min(high, constant // -coefficient)
        return low, high
    name, a, b = factor
    (a_low, a_high), (b_low, b_high) = _interval(a), _interval(b)
    if name == "max":
        return max(a_low, b_low), max(a_high, b_high)
    if name == "min":
        return min(a_low, b_low), min(a_high, b_high)
    if b_low <= 0:
        return -_INFINITE, _INFINITE
    if name == "mod":
        return 0, b_high - 1
    low = 0 if a_low >= 0 else -_INFINITE
    if a_low >= 0 and b_high < _INFINITE:
        low = a_low // b_high
    return low, _INFINITE if a_high == _INFINITE else max(a_high // b_low, 0)


def _decide(a: Any, b: Any) -> bool:
    """Whether a >= b, for all sizes."""
    low, high = bounds(a - b)
    if low >= 0:
        return True
    if high < 0:
        return False
    _undecided(f"{a} >= {b}")


# -- values ----------------------------------------------------------------------------------------


def variables(sizes: Iterable[Any]) -> set[str]:
    """Names that the sizes depend on."""
    found: set[str] = set()
    for size in sizes:
        if isinstance(size, SymbolicDim):
            for factor, _ in itertools.chain.from_iterable(size.terms):
                found |= variables(factor[1:]) if isinstance(factor, tuple) else {factor}
    return found


def evaluate(size: Any, values: Mapping[str, int]) -> Any:
    """The size with these variables replaced by numbers; a number if all are."""
    if not isinstance(size, SymbolicDim):
        return size
    total: Any = 0
    for monomial, coefficient in size.terms.items():
        product: Any = coefficient
        for factor, power in monomial:
            if isinstance(factor, tuple):
                a, b = (evaluate(x, values) for x in factor[1:])
                value = operation(factor[0], a, b)
            else:
                value = values[factor] if factor in values else size.scope.factor(factor)
            product = product * value**power
        total = total + product
    return total
