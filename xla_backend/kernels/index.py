"""Index expressions: integer sums of loop variables, quotients, remainders and computed scalars,
kept simplified.

`Index` is a value: `64*i + j + 3`, with atoms that are loop variables (`Var`), run-time parameters
of the kernel (`Parameter`), `FloorDiv`, `Mod` or values that hold an integer (already clamped; they
carry bounds). All arithmetic simplifies by the bounds of the atoms, so that to delinearise and to
linearise again gives back the plain variable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Union

# More elements than any array has, for parameters that count them; so many need indices of 64 bits.
MOST_ELEMENTS = 1 << 40


class Var:
    """A loop variable: runs from 0 to extent - 1. `depth` is the nesting depth of its loop."""

    __slots__ = ("depth", "extent", "name")

    def __init__(self, name: str, extent: int, depth: int) -> None:
        self.name = name
        self.extent = extent
        self.depth = depth

    @property
    def bounds(self) -> tuple[int, int]:
        return 0, self.extent - 1

    def __repr__(self) -> str:
        return self.name


class Parameter:
    """A number that the caller of a kernel supplies, such as the length of its arrays; it lies
    within `bounds` and is a multiple of `unit`."""

    __slots__ = ("bounds", "name", "unit")

    depth = 0

    def __init__(self, name: str, bounds: tuple[int, int], unit: int = 1) -> None:
        self.name = name
        self.bounds = bounds
        self.unit = unit

    def __repr__(self) -> str:
        return self.name


class _Quotient:
    """What is computed of an index and a divisor above 1; the index is not negative."""

    __slots__ = ("index", "divisor", "_bounds", "_hash")  # noqa: RUF023 (written in this order)

    def __init__(self, index: Index, divisor: int) -> None:
        self.index = index
        self.divisor = divisor
        self._bounds = self._within(*index.bounds)
        self._hash = hash((type(self), index, divisor))

    def _within(self, low: int, high: int) -> tuple[int, int]:
        """Its bounds, for those of the index."""
        raise NotImplementedError

    @property
    def depth(self) -> int:
        return self.index.depth

    @property
    def bounds(self) -> tuple[int, int]:
        return self._bounds

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, type(self))
            and self.divisor == other.divisor
            and self.index == other.index
        )

    def __hash__(self) -> int:
        return self._hash


class FloorDiv(_Quotient):
    """index // divisor."""

    __slots__ = ()

    def _within(self, low: int, high: int) -> tuple[int, int]:
        return low // self.divisor, high // self.divisor

    def __repr__(self) -> str:
        return f"({self.index}) // {self.divisor}"


class Mod(_Quotient):
    """index % divisor."""

    __slots__ = ()

    def _within(self, low: int, high: int) -> tuple[int, int]:
        return 0, min(self.divisor - 1, high)

    def __repr__(self) -> str:
        return f"({self.index}) % {self.divisor}"


# Atoms that are computed of an index. (Asking for a class of a tuple takes half as long as for one
# of a union that is made for the question.)
QUOTIENTS = (FloorDiv, Mod)

# A Value of the kernel IR is the fifth kind of atom; it is not named here to keep the import order.
Atom = Union[Var, Parameter, FloorDiv, Mod, Any]


class Index:
    """sum(coefficient * atom) + constant."""

    __slots__ = ("_bounds", "_depth", "_hash", "constant", "terms")

    def __init__(self, terms: dict[Atom, int], constant: int = 0) -> None:
        self.terms = terms
        self.constant = constant
        self._hash: int | None = None
        self._bounds: tuple[int, int] | None = None
        self._depth: int | None = None

    @staticmethod
    def of(atom: Atom) -> Index:
        return Index({atom: 1})

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Index)
            and self.constant == other.constant
            and self.terms == other.terms
        )

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((frozenset(self.terms.items()), self.constant))
        return self._hash

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @property
    def depth(self) -> int:
        """Depth of the innermost loop the index depends on; 0 if on none."""
        if self._depth is None:
            deepest = 0
            for atom in self.terms:
                if atom.depth > deepest:
                    deepest = atom.depth
            self._depth = deepest
        return self._depth

    @property
    def bounds(self) -> tuple[int, int]:
        """Smallest and largest possible value (both possible or wider)."""
        if self._bounds is None:
            low = high = self.constant
            for atom, c in self.terms.items():
                a, b = atom.bounds
                if c > 0:
                    low += c * a
                    high += c * b
                else:
                    low += c * b
                    high += c * a
            self._bounds = (low, high)
        return self._bounds

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index(self.terms, self.constant + other) if other else self
        if not other.terms:
            return Index(self.terms, self.constant + other.constant) if other.constant else self
        if not self.terms:
            return Index(other.terms, self.constant + other.constant) if self.constant else other
        terms = self.terms.copy()
        for atom, c in other.terms.items():
            total = terms.get(atom, 0) + c
            if total:
                terms[atom] = total
            else:
                del terms[atom]
        for atom in terms:
            if isinstance(atom, Mod):
                return _recombine(terms, self.constant + other.constant)
        return Index(terms, self.constant + other.constant)

    def __mul__(self, factor: int) -> Index:
        if factor == 1:
            return self
        if factor == 0:
            return ZERO
        # (A loop: of so few terms a comprehension takes longer.)
        terms: dict[Atom, int] = {}
        for atom, c in self.terms.items():
            terms[atom] = c * factor
        return Index(terms, self.constant * factor)

    __rmul__ = __mul__

    def __sub__(self, other: Index | int) -> Index:
        return self + (other * -1 if isinstance(other, Index) else -other)

    def __floordiv__(self, divisor: int) -> Index:
        if divisor == 1:
            return self
        low, high = self.bounds
        if 0 <= low and high < divisor:
            return ZERO
        quotient: dict[Atom, int] = {}
        rest: dict[Atom, int] = {}
        for atom, c in self.terms.items():
            if c % divisor:
                rest[atom] = c
            else:
                quotient[atom] = c // divisor
        whole, constant = divmod(self.constant, divisor)
        remainder = Index(rest, constant)
        low, high = remainder.bounds
        if 0 <= low and high < divisor:
            return Index(quotient, whole)
        if low < 0:
            # Keep the operand of // non-negative: move whole multiples of the divisor to the
            # constant.
            shift = -(low // divisor)
            remainder = remainder + shift * divisor
            whole -= shift
        return Index(quotient, whole) + _divide_rest(remainder, divisor)

    def __mod__(self, divisor: int) -> Index:
        if divisor == 1:
            return ZERO
        terms: dict[Atom, int] = {}
        for atom, c in self.terms.items():
            if c % divisor and c * _unit(atom) % divisor:
                terms[atom] = c
        rest = Index(terms, self.constant % divisor)
        low, high = rest.bounds
        if 0 <= low and high < divisor:
            return rest
        if low < 0:
            rest = rest + -(low // divisor) * divisor
        small, scale = _split_small(rest, divisor)
        if scale > 1 and divisor % scale == 0:
            inner = Index(
                {a: c // scale for a, c in rest.terms.items() if c % scale == 0},
                rest.constant // scale,
            )
            return (inner % (divisor // scale)) * scale + small
        if len(rest.terms) == 1 and rest.constant == 0:
            ((atom, c),) = rest.terms.items()
            if isinstance(atom, Mod) and c == 1 and atom.divisor % divisor == 0:
                return atom.index % divisor
        return Index({Mod(rest, divisor): 1})

    def coefficient(self, atom: Atom) -> int:
        return self.terms.get(atom, 0)

    def replaced(self, atoms: Callable[[Atom], Index | None]) -> Index:
        """The index with `atoms(atom)` in place of each atom where that is not None, also inside
        quotients."""
        same: dict[Atom, int] = {}
        others: list[Index] = []
        for atom, c in self.terms.items():
            new = atoms(atom)
            if new is None and isinstance(atom, QUOTIENTS):
                inner = atom.index.replaced(atoms)
                if inner is not atom.index:
                    quotient = isinstance(atom, FloorDiv)
                    new = inner // atom.divisor if quotient else inner % atom.divisor
            if new is None:
                same[atom] = c
            else:
                others.append(new if c == 1 else new * c)
        if not others:
            return self
        if not same and not self.constant:
            total = others.pop(0)
        else:
            total = Index(same, self.constant)
        for other in others:
            total = total + other
        return total

    def __str__(self) -> str:
        parts: list[str] = []
        for atom, c in self.terms.items():
            text = str(atom)
            if isinstance(atom, QUOTIENTS):
                text = f"({text})" if abs(c) != 1 or parts or isinstance(atom, Mod) else text
            if abs(c) != 1:
                text = f"{abs(c)}*{text}"
            parts.append(
                (" + " if c > 0 else " - ") + text if parts else ("" if c > 0 else "-") + text
            )
        if self.constant or not parts:
            if not parts:
                return str(self.constant)
            parts.append(f" {'+' if self.constant > 0 else '-'} {abs(self.constant)}")
        return "".join(parts)

    __repr__ = __str__


ZERO = Index({}, 0)


def _unit(atom: Atom) -> int:
    """What an atom is a multiple of."""
    return atom.unit if isinstance(atom, Parameter) else 1


def constant(value: int) -> Index:
    return Index({}, value) if value else ZERO


def linearize(indices: Sequence[Index], dimensions: Sequence[int]) -> Index:
    """Row-major offset of a multi-index."""
    result = ZERO
    stride = 1
    for index, size in zip(reversed(indices), reversed(dimensions)):
        if index is not ZERO:
            result = result + index * stride
        stride *= size
    return result


def delinearize(linear: Index, dimensions: Sequence[int]) -> tuple[Index, ...]:
    """The multi-index of a row-major offset that is within the array."""
    result: list[Index] = [ZERO] * len(dimensions)
    outermost = -1
    for position in range(len(dimensions) - 1, -1, -1):
        size = dimensions[position]
        if size == 1:
            continue
        if outermost < 0:
            outermost = next(n for n, d in enumerate(dimensions) if d != 1)
        if position == outermost:
            result[position] = linear
            break
        result[position] = linear % size
        linear = linear // size
    return tuple(result)


def _split_small(rest: Index, divisor: int) -> tuple[Index, int]:
    """Split rest = scale * (...) + small with 0 <= small < scale and scale | divisor; scale 1 if
    there is none."""
    candidates = sorted({divisor, *map(abs, rest.terms.values())}, reverse=True)
    for scale in candidates:
        if scale <= 1 or divisor % scale:
            continue
        small_terms = {a: c for a, c in rest.terms.items() if c % scale}
        small = Index(small_terms, rest.constant % scale)
        if len(small_terms) == len(rest.terms):
            continue
        low, high = small.bounds
        if 0 <= low and high < scale:
            return small, scale
    return ZERO, 1


def _divide_rest(rest: Index, divisor: int) -> Index:
    _, scale = _split_small(rest, divisor)
    if scale > 1:
        inner = Index(
            {a: c // scale for a, c in rest.terms.items() if c % scale == 0}, rest.constant // scale
        )
        if scale == divisor:
            return inner
        return inner // (divisor // scale)
    if len(rest.terms) == 1 and rest.constant == 0:
        ((atom, c),) = rest.terms.items()
        if isinstance(atom, FloorDiv) and c == 1:
            return atom.index // (atom.divisor * divisor)
        if isinstance(atom, Mod) and c == 1 and atom.divisor % divisor == 0:
            # (x % (d*e)) // d == (x // d) % e
            return (atom.index // divisor) % (atom.divisor // divisor)
    return Index({FloorDiv(rest, divisor): 1})


def _recombine(terms: dict[Atom, int], constant: int) -> Index:
    """Undo a split: c*d*(x // d) + c*(x % d) -> c*x."""
    for atom, c in terms.items():
        if isinstance(atom, Mod):
            quotient = atom.index // atom.divisor
            if not quotient.terms:
                continue
            if all(terms.get(a) == q * c * atom.divisor for a, q in quotient.terms.items()):
                del terms[atom]
                for a in quotient.terms:
                    del terms[a]
                rest = Index(terms, constant - quotient.constant * c * atom.divisor)
                return rest + atom.index * c
    return Index(terms, constant)
