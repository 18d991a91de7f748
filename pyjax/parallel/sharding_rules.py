"""Rules that say which dimensions of an operation's operands and results belong together, so that
an array that is cut along one can be the operand of a device: `i k, k j -> i j`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from pyjax.core.errors import fail
from xla_backend.spmd.custom import Mappings

BATCHING = "…"  # stands for any number of leading dimensions
_TOKEN = re.compile(r"\.\.\.|…|[()]|[A-Za-z_][A-Za-z_0-9]*")


class CompoundFactor(tuple[str, ...]):
    """A dimension made of several factors, the first of them major.

    >>> CompoundFactor("a", "b")
    CompoundFactor('a', 'b')
    """

    def __new__(cls, *factors: str) -> CompoundFactor:
        if len(factors) < 2 or not all(isinstance(f, str) for f in factors):
            fail(ValueError, f"A CompoundFactor has two or more names of factors, got {factors}.")
        return super().__new__(cls, factors)

    def __repr__(self) -> str:
        return f"CompoundFactor({', '.join(map(repr, self))})"


class ArrayMapping(tuple[Any, ...]):
    """The factors of each dimension of an array: names, CompoundFactors, and BATCHING in front.

    >>> ArrayMapping(BATCHING, "i")
    ArrayMapping('…', 'i')
    """

    def __new__(cls, *dim_mappings: Any) -> ArrayMapping:
        for number, each in enumerate(dim_mappings):
            if not isinstance(each, (str, CompoundFactor)):
                fail(ValueError, f"A dimension is a name or a CompoundFactor, got {each!r}.")
            if each == BATCHING and number:
                fail(
                    ValueError, f"BATCHING stands in front of other dimensions, got {dim_mappings}."
                )
        return super().__new__(cls, dim_mappings)

    def __repr__(self) -> str:
        return f"ArrayMapping({', '.join(map(repr, self))})"


class SdyShardingRule:
    """Which dimensions of operands and results belong together.

    Args:
      operand_mappings, result_mappings: an ArrayMapping, or a tuple for one, for each array.
      reduction_factors: names that results lack because the operation sums over them.
      need_replication_factors: names of dimensions that must not be cut.
      permutation_factors: names of dimensions along which devices exchange neighbours.
      factor_sizes: of factors that are in CompoundFactors only.
    Raises:
      ValueError: a special factor or a size is of a name that no array has.

    >>> SdyShardingRule((("i", "k"), ("k", "j")), (("i", "j"),), reduction_factors=("k",))
    SdyShardingRule('i k, k j -> i j')
    """

    def __init__(
        self,
        operand_mappings: tuple[Any, ...],
        result_mappings: tuple[Any, ...],
        *,
        reduction_factors: tuple[str, ...] = (),
        need_replication_factors: tuple[str, ...] = (),
        permutation_factors: tuple[str, ...] = (),
        **factor_sizes: int,
    ) -> None:
        self.operand_mappings = tuple(ArrayMapping(*m) for m in operand_mappings)
        self.result_mappings = tuple(ArrayMapping(*m) for m in result_mappings)
        self.reduction_factors = tuple(reduction_factors)
        self.need_replication_factors = tuple(need_replication_factors)
        self.permutation_factors = tuple(permutation_factors)
        self.factor_sizes = dict(factor_sizes)
        arrays = (*self.operand_mappings, *self.result_mappings)
        names = {name for array in arrays for dim in array for name in _names(dim)}
        for what in ("reduction_factors", "need_replication_factors", "permutation_factors"):
            for name in getattr(self, what):
                if name not in names:
                    fail(ValueError, f"Factor {name} in {what} is not used in the rule {self}.")
        for name in factor_sizes:
            if name not in names:
                fail(ValueError, f"Factor {name} has a size and is not used in the rule {self}.")

    def __repr__(self) -> str:
        sides = (self.operand_mappings, self.result_mappings)
        left, right = (
            ", ".join(" ".join(map(_dim_text, array)) for array in side) for side in sides
        )
        return f"SdyShardingRule('{left} -> {right}')"

    def mappings(
        self, operands: Sequence[Sequence[int]], results: Sequence[Sequence[int]]
    ) -> Mappings:
        """Factors by numbers, for arrays of these shapes.

        Raises:
          ValueError: the rule is not of such arrays.
        """
        return _Numbering(self, operands, results).mappings()


def _names(dim: Any) -> tuple[str, ...]:
    return dim if isinstance(dim, CompoundFactor) else () if dim == BATCHING else (dim,)


def _dim_text(dim: Any) -> str:
    return f"({' '.join(dim)})" if isinstance(dim, CompoundFactor) else str(dim)


def _side_text(arrays: Sequence[ArrayMapping]) -> str:
    return ", ".join(" ".join(map(_dim_text, array)) for array in arrays)


def parse_rule(text: str, **params: Any) -> SdyShardingRule:
    """The rule that is written `i k, k j -> i j`: arrays with commas between them, dimensions with
    spaces, `(a b)` for a dimension of several factors, `...` for leading dimensions.

    Raises:
      ValueError: it is not written so.
    """
    sides = text.split("->")
    if len(sides) != 2:
        fail(
            ValueError,
            f"There is no -> in rule: {text!r}."
            if len(sides) < 2
            else f"Two -> in rule: {text!r}.",
            "a rule has operands on its left side and results on its right side.",
            "write it like 'i k, k j -> i j'.",
        )
    arrays = [[_parse_array(part, text) for part in side.split(",")] for side in sides]
    return SdyShardingRule(tuple(arrays[0]), tuple(arrays[1]), **params)


def _parse_array(part: str, text: str) -> ArrayMapping:
    tokens = _TOKEN.findall(part)
    if "".join(tokens) != re.sub(r"\s", "", part):
        fail(ValueError, f"Dimensions are names, (a b) or ..., got {part.strip()!r} in {text!r}.")
    dims: list[Any] = []
    inside: list[str] | None = None
    for token in tokens:
        if token == "(" and inside is None:
            inside = []
        elif token == ")" and inside is not None:
            dims.append(CompoundFactor(*inside))
            inside = None
        elif token in "()":
            fail(ValueError, f"Brackets do not match in {text!r}.")
        elif inside is not None:
            inside.append(token)
        else:
            dims.append(BATCHING if token == "..." else token)
    if inside is not None:
        fail(ValueError, f"Brackets do not match in {text!r}.")
    return ArrayMapping(*dims)


class _Numbering:
    """Numbers the factors of a rule for arrays of some shapes."""

    def __init__(
        self,
        rule: SdyShardingRule,
        operands: Sequence[Sequence[int]],
        results: Sequence[Sequence[int]],
    ) -> None:
        self._rule = rule
        self._numbers: dict[str, int] = {}
        self._sizes: list[int] = []
        self._arrays = [
            *self._paired("operands", rule.operand_mappings, operands),
            *self._paired("results", rule.result_mappings, results),
        ]
        self._count = len(operands)
        for mapping, shape in self._arrays:
            for dim, size in zip(mapping, shape):
                if isinstance(dim, str):
                    self._number(dim, size)

    def _paired(self, what: str, mappings: Sequence[Any], shapes: Sequence[Any]) -> list[Any]:
        if len(mappings) != len(shapes):
            self._misfit(f"it has {len(mappings)} {what}, and the function {len(shapes)}")
        found = []
        for mapping, shape in zip(mappings, shapes):
            dims = list(mapping)
            if dims[:1] == [BATCHING]:
                count = len(shape) - len(dims) + 1
                dims = [*(f"{BATCHING}{k}" for k in range(count)), *dims[1:]]
            if len(dims) != len(shape):
                self._misfit(f"{len(mapping)} dimensions stand for an array of shape {shape}")
            found.append((dims, tuple(shape)))
        return found

    def _misfit(self, why: str) -> None:
        fail(
            ValueError,
            f"{self._rule} is no rule of this function: {why}.",
            "a rule names every dimension of every operand and result.",
            "write the dimensions of each array, or ... in front for any number of them.",
        )

    def _number(self, name: str, size: int) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._sizes)
            self._sizes.append(size)
        elif self._sizes[number] != size:
            self._misfit(f"factor {name} is {self._sizes[number]} and {size}")
        return number

    def _of_compound(self, dim: CompoundFactor, size: int) -> tuple[int, ...]:
        sizes: dict[str, int] = {}
        for name in dim:
            known = self._numbers.get(name)
            given = self._rule.factor_sizes.get(name)
            if known is not None or given is not None:
                sizes[name] = self._sizes[known] if known is not None else given or 0
        missing = [name for name in dim if name not in sizes]
        rest, left = divmod(size, math.prod(sizes.values()) or 1)
        if len(missing) == 1 and not left:
            sizes[missing[0]] = rest
        if math.prod(sizes.get(name, 0) for name in dim) != size:
            self._misfit(f"the factors {_dim_text(dim)} of sizes {sizes} do not make {size}")
        return tuple(self._number(name, sizes[name]) for name in dim)

    def mappings(self) -> Mappings:
        whole = {*self._rule.need_replication_factors}
        found = []
        for mapping, shape in self._arrays:
            dims = []
            for dim, size in zip(mapping, shape):
                factors = (
                    self._of_compound(dim, size)
                    if isinstance(dim, CompoundFactor)
                    else (self._number(dim, size),)
                )
                dims.append(() if whole & {*_names(dim)} else factors)
            found.append(tuple(dims))
        return Mappings(
            tuple(found[: self._count]), tuple(found[self._count :]), tuple(self._sizes)
        )
