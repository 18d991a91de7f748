"""Whether a reduction may meet its elements in any order: f(x, y) = f(y, x) for all x and y.

Two proofs are tried. One writes both down: if the expressions are the same once operands of
commutative operations are sorted, it does. The other is for computations that only compare and
select: their outcome depends on nothing but the order in which numbers stand, so that trying all
orders of as many numbers as there are decides it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from math import prod

import ml_dtypes
import numpy as np

from xla_backend.hlo.attributes import CompareAttributes, ComparisonDirection
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.monoids import identity_of
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.process.on_first_use import on_first_use

_apply_scalar = on_first_use("xla_backend.hlo.evaluator.scalar_computations", "apply_scalar")

_SELECTING = frozenset({Opcode.SELECT, Opcode.MAXIMUM, Opcode.MINIMUM})
_LOGIC = frozenset({Opcode.AND, Opcode.OR, Opcode.XOR, Opcode.NOT})
_PLAIN = frozenset({Opcode.PARAMETER, Opcode.CONSTANT, Opcode.TUPLE})
_TURNED = {
    ComparisonDirection.GT: ComparisonDirection.LT,
    ComparisonDirection.GE: ComparisonDirection.LE,
}
_SYMMETRIC = (ComparisonDirection.EQ, ComparisonDirection.NE)
# More cases than this are not tried.
_MOST_CASES = 1 << 18

_Values = list[np.ndarray]


def only_selects(computation: Computation) -> bool:
    """Whether the computation does nothing but compare numbers and select some of them."""
    return all(
        node.opcode in _PLAIN
        or node.opcode in _SELECTING
        or (node.opcode in _LOGIC and node.shape.element_type is PrimitiveType.PRED)
        or _compares_values(node)
        for node in computation.post_order()
    ) and not any(p.shape.element_type.is_complex for p in computation.parameters)


def _compares_values(node: Instruction) -> bool:
    if node.opcode is not Opcode.COMPARE:
        return False
    assert isinstance(node.attributes, CompareAttributes)
    return not node.attributes.total_order


def commutes(computation: Computation) -> bool:
    """Whether it is known that the two halves of the parameters may change places."""
    return _same_text(computation) or (only_selects(computation) and _same_cases(computation))


def agrees(computation: Computation, reference: Callable[..., Sequence[np.ndarray]]) -> bool:
    """Whether a computation that compares and selects is the same function as `reference`, of
    arrays of the values of its parameters."""
    if not only_selects(computation):
        return False
    cases = _cases(computation, 2, True)
    if cases is None:
        return False
    one, other = cases
    # Some types of ml_dtypes say so where they compare with nan.
    with np.errstate(invalid="ignore"):
        return _equal(_apply(computation, one, other), list(reference(*one, *other)))


def _same_text(computation: Computation) -> bool:
    assert computation.root is not None
    half = len(computation.parameters) // 2
    numbers: dict[Hashable, int] = {}  # of expressions, the same for the same
    plain: dict[Instruction, int] = {}
    swapped: dict[Instruction, int] = {}
    for node in computation.post_order():
        place = node.parameter_number if node.opcode is Opcode.PARAMETER else 0
        for known, here in ((plain, place), (swapped, (place + half) % (2 * half))):
            key = _expression(node, [known[o] for o in node.operands], here)
            known[node] = numbers.setdefault(key, len(numbers))
    return plain[computation.root] == swapped[computation.root]


def _expression(node: Instruction, operands: list[int], place: int) -> Hashable:
    """What a node computes of expressions with these numbers, which are sorted where they may
    be."""
    opcode = node.opcode
    attributes: Hashable = None
    if opcode is Opcode.PARAMETER:
        attributes = place
    elif opcode is Opcode.CONSTANT:
        attributes = node.literal_array.tobytes()
    elif opcode is Opcode.COMPARE:
        assert isinstance(node.attributes, CompareAttributes)
        direction = node.attributes.direction
        if direction in _TURNED:
            direction, operands = _TURNED[direction], operands[::-1]
        elif direction in _SYMMETRIC:
            operands = sorted(operands)
        attributes = direction, node.attributes.total_order
    elif node.called or not (opcode.is_elementwise or opcode is Opcode.TUPLE):
        attributes = id(node)
    else:
        attributes = repr(node.attributes)
    if opcode.is_commutative:
        operands = sorted(operands)
    return opcode, node.shape, attributes, *operands


def _same_cases(computation: Computation) -> bool:
    """Try all orders of the parameters' values, with nan among them unless that is more than the
    computation can do: where it is not associative, any result is right."""
    if _commutes_in(computation, nan=True):
        return True
    return not _associates(computation) and _commutes_in(computation, nan=False)


def _commutes_in(computation: Computation, *, nan: bool) -> bool:
    cases = _cases(computation, 2, nan)
    if cases is None:
        return False
    one, other = cases
    return _equal(_apply(computation, one, other), _apply(computation, other, one))


def _associates(computation: Computation) -> bool:
    cases = _cases(computation, 3, True)
    if cases is None:
        return True
    x, y, z = cases
    left = _apply(computation, _apply(computation, x, y), z)
    return _equal(left, _apply(computation, x, _apply(computation, y, z)))


def _apply(computation: Computation, lhs: _Values, rhs: _Values) -> _Values:
    with np.errstate(invalid="ignore"):
        return list(_apply_scalar(computation, [*lhs, *rhs], _never))


def _equal(one: _Values, other: _Values) -> bool:
    return all(bool(np.all((x == y) | ((x != x) & (y != y)))) for x, y in zip(one, other))


def _cases(computation: Computation, count: int, nan: bool) -> list[_Values] | None:
    """All cases of `count` elements; None if there are too many."""
    types = [p.shape.element_type for p in computation.parameters]
    types = types[: len(types) // 2] * count
    domains = [_domain(computation, type, types.count(type), nan) for type in types]
    if prod(map(len, domains)) > _MOST_CASES:
        return None
    places = np.meshgrid(*(np.arange(len(domain)) for domain in domains), indexing="ij")
    values = [domain[place.reshape(-1)] for domain, place in zip(domains, places)]
    each = len(values) // count
    return [values[k * each : (k + 1) * each] for k in range(count)]


def _domain(computation: Computation, type: PrimitiveType, room: int, nan: bool) -> np.ndarray:
    """Values of a type: the constants, and between and around them room for as many others."""
    if type is PrimitiveType.PRED:
        return np.array([False, True])
    constants = {
        node.literal_array.item()
        for node in computation.post_order()
        if node.opcode is Opcode.CONSTANT and node.shape.element_type is type
    }
    known = sorted(c for c in constants if np.isfinite(c))
    if not known:
        found = [*constants, *range(room)]
    elif type.is_floating:
        # The nearest numbers of the type, or as many as there are.
        ends = (identity_of(Opcode.MAXIMUM, type), identity_of(Opcode.MINIMUM, type))
        found = [*constants, *ends]
        for constant in np.array(known, type.numpy_dtype):
            for end in ends:
                near = constant
                for _ in range(room):
                    near = np.nextafter(near, end)
                    found.append(near)
    else:
        info = ml_dtypes.iinfo(type.numpy_dtype)
        around = {c + k for c in known for k in range(-room, room + 1)}
        found = [c for c in around if info.min <= c <= info.max]
    if type.is_floating and nan:
        found.append(np.nan)
    # Each once, and nan once. (`np.unique` loads masked arrays with the first call.)
    values = np.sort(np.array(found, type.numpy_dtype))
    first, second = values[:-1], values[1:]
    differ = (first != second) & ((first == first) | (second == second))
    return values[np.append(True, differ)]


def _never(computation: Computation, operands: Sequence[np.ndarray]) -> object:
    raise AssertionError(f"{computation.name} compares and selects only")
