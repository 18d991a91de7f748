"""Shape rules of elementwise opcodes: element types accepted, and operands of equal shape (HLO
never broadcasts implicitly, but for the scalar bounds of clamp and the scalar predicate of
select)."""

from __future__ import annotations

from xla_backend.hlo.attributes import DimensionsAttributes, ReducePrecisionAttributes
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.shape_checks import Rule, RuleContext, set_text
from xla_backend.hlo.types import PrimitiveType

P = PrimitiveType
_ALL = frozenset(t for t in P if t.is_array)
_FLOAT = frozenset(t for t in _ALL if t.is_floating)
_COMPLEX = frozenset(t for t in _ALL if t.is_complex)
_INTEGER = frozenset(t for t in _ALL if t.is_integral)
_INEXACT = _FLOAT | _COMPLEX
_NUMBER = _INTEGER | _INEXACT
_BITS = _INTEGER | {P.PRED}

_CLASS_NAMES = {
    _FLOAT: "floating-point",
    _INTEGER: "integer",
    _INEXACT: "floating-point or complex",
    _NUMBER: "integer, floating-point or complex",
    _BITS: "integer or pred",
    _INTEGER | _FLOAT: "integer or floating-point",
    _ALL - _COMPLEX: "not complex",
}

REAL_PART = {P.C64: P.F32, P.C128: P.F64}
COMPLEX_OF = {P.F32: P.C64, P.F64: P.C128}

_ACCEPTS: dict[str, frozenset[PrimitiveType]] = {}
for _names, _types in (
    ("abs sign negate", _NUMBER),
    ("ceil floor round-nearest-afz round-nearest-even is-finite erf reduce-precision", _FLOAT),
    (
        "cosine sine tan sinh cosh asin acos asinh acosh atanh exponential exponential-minus-one",
        _INEXACT,
    ),
    ("log log-plus-one logistic rsqrt sqrt cbrt tanh real imag power atan2", _INEXACT),
    ("not and or xor", _BITS),
    ("popcnt count-leading-zeros mulhi", _INTEGER),
    ("shift-left shift-right-arithmetic shift-right-logical", _INTEGER),
    ("convert bitcast-convert copy compare select add multiply", _ALL),
    ("subtract divide", _NUMBER),
    ("remainder", _INTEGER | _FLOAT),
    ("maximum minimum clamp", _ALL - _COMPLEX),
    ("complex", frozenset(COMPLEX_OF)),
    ("stochastic-convert", _FLOAT),
):
    for _name in _names.split():
        _ACCEPTS[_name] = _types
# power of integers is what lax.integer_pow of integer arrays and older programs use
_ACCEPTS["power"] = _NUMBER


def _check_type(c: RuleContext, shape: Shape) -> None:
    accepts = _ACCEPTS[c.opcode.value]
    if shape.element_type not in accepts:
        wanted = _CLASS_NAMES.get(accepts) or " or ".join(sorted(str(t) for t in accepts))
        # elementwise_c1
        c.fail(f"element type must be {wanted}, is {shape.element_type}", "Insert a convert")


def _result(shape: Shape) -> Shape:
    return shape if shape.layout is None else Shape(shape.element_type, shape.dimensions)


def _unary(c: RuleContext) -> Shape:
    c.require_arity(1)
    shape = c.shapes[0]
    if not shape.is_array:
        c.require_array()
    _check_type(c, shape)
    return _result(shape)


def _require_equal(c: RuleContext) -> Shape:
    first = c.shapes[0]
    for other in c.shapes[1:]:
        if other.dimensions != first.dimensions:
            # elementwise_c2
            c.fail(
                "operands must have equal dimensions",
                "HLO does not broadcast implicitly: insert a broadcast",
            )
        if other.element_type is not first.element_type:
            # elementwise_c3
            c.fail("operands must have equal element types", "Insert a convert")
    return first


def _binary(c: RuleContext) -> Shape:
    if len(c.shapes) != 2:
        c.require_arity(2)
    a, b = c.shapes
    if not (a.is_array and b.is_array):
        c.require_array()
    if a is not b:
        _require_equal(c)
    _check_type(c, a)
    return _result(a)


def _compare(c: RuleContext) -> Shape:
    shape = _binary(c)
    return shape.with_type(P.PRED)


def _abs(c: RuleContext) -> Shape:
    shape = _unary(c)
    return shape.with_type(REAL_PART.get(shape.element_type, shape.element_type))


def _is_finite(c: RuleContext) -> Shape:
    return _unary(c).with_type(P.PRED)


def _complex(c: RuleContext) -> Shape:
    shape = _binary(c)
    return shape.with_type(COMPLEX_OF[shape.element_type])


def _select(c: RuleContext) -> Shape:
    c.require_arity(3)
    pred, on_true, on_false = c.shapes
    if pred.element_type is not P.PRED:
        # select_c3
        c.fail(f"the predicate must be pred, is {pred}", "Compare with zero first")
    if not on_true.compatible(on_false):
        # select_c2
        c.fail("operands 1 and 2 must have equal shapes", "Insert a convert or broadcast")
    if on_true.is_array and pred.dimensions not in ((), on_true.dimensions):
        # select_c1
        c.fail(
            "the predicate must be a scalar or have the shape of the values", "Insert a broadcast"
        )
    return _result(on_true) if on_true.is_array else on_true


def _clamp(c: RuleContext) -> Shape:
    c.require_arity(3)
    c.require_array()
    low, shape, high = c.shapes
    _check_type(c, shape)
    for bound in (low, high):
        if bound.element_type is not shape.element_type:
            # clamp_c3
            c.fail("operands must have equal element types", "Insert a convert")
        if bound.dimensions not in ((), shape.dimensions):
            # clamp_c1, clamp_c2
            c.fail(
                "a bound must be a scalar or have the shape of the operand", "Insert a broadcast"
            )
    return _result(shape)


def _convert(c: RuleContext) -> Shape:
    shape, given = _unary(c), c.require_given()
    # convert_c2
    c.require(given.is_array, f"the result must be an array, is {given}")
    # convert_c1
    c.require(
        given.dimensions == shape.dimensions, f"cannot change dimensions to {given}", "Use reshape"
    )
    return given


def _stochastic_convert(c: RuleContext) -> Shape:
    c.require_arity(2)
    c.require_array()
    value, random = c.shapes
    given = c.require_given()
    _check_type(c, value)
    # stochastic_convert_c1
    c.require(value.dimensions == random.dimensions, "operands must have equal dimensions")
    # stochastic_convert_c2
    c.require(
        random.element_type.is_unsigned_integral
        and random.element_type.bits == value.element_type.bits,
        f"random bits must be unsigned with the width of {value.element_type}",
    )
    # stochastic_convert_c3
    c.require(given.dimensions == value.dimensions, f"cannot change dimensions to {given}")
    return given


def _bitcast_convert(c: RuleContext) -> Shape:
    shape, given = _unary(c), c.require_given()
    # bitcast_convert_c3
    c.require(given.is_array, f"the result must be an array, is {given}")
    have, want = shape.element_type, given.element_type
    # bitcast_convert_c2
    c.require(
        have.is_complex == want.is_complex and (have is P.PRED) == (want is P.PRED),
        f"cannot reinterpret {have} as {want}",
        "Convert pred to u8, or take real and imag, first",
    )
    if have.bits == want.bits:
        expected: tuple[int, ...] = shape.dimensions
    elif have.bits > want.bits:
        expected = (*shape.dimensions, have.bits // want.bits)
    else:
        ratio = want.bits // have.bits
        # bitcast_convert_c4
        c.require(
            shape.dimensions and shape.dimensions[-1] == ratio,
            f"the last dimension must be {ratio} to be packed into {want}",
        )
        expected = shape.dimensions[:-1]
    result = given.with_dimensions(expected)
    # bitcast_convert_c1
    c.require(given.dimensions == expected, f"the result must be {result}, is {given}")
    return given


def _reduce_precision(c: RuleContext) -> Shape:
    shape = _unary(c)
    a = c.attributes
    assert isinstance(a, ReducePrecisionAttributes)
    # reduce_precision_c2
    c.require(a.exponent_bits >= 1, f"exponent_bits must be at least 1, is {a.exponent_bits}")
    # reduce_precision_c3
    c.require(a.mantissa_bits >= 0, f"mantissa_bits must not be negative, is {a.mantissa_bits}")
    return shape


def _copy(c: RuleContext) -> Shape:
    c.require_arity(1)
    return _result(c.shapes[0]) if c.shapes[0].is_array else c.shapes[0]


def _map(c: RuleContext) -> Shape:
    c.require_called(1)
    # map_c2
    c.require(c.shapes, "needs at least one operand")
    c.require_array()
    first = c.shapes[0]
    for other in c.shapes[1:]:
        # map_c1
        c.require(
            other.dimensions == first.dimensions,
            "operands must have equal dimensions",
            "Insert a broadcast",
        )
    a = c.attributes
    assert isinstance(a, DimensionsAttributes)
    # map_c3
    c.require(
        a.dimensions in ((), tuple(range(first.rank))),
        f"dimensions={set_text(a.dimensions)} must be all dimensions in order",
    )
    parameters = [Shape(s.element_type) for s in c.shapes]
    # map_c4
    root = c.require_signature(c.called[0], parameters, None, "to_apply")
    # map_c5
    c.require(root.is_scalar, f"to_apply must return a scalar, returns {root}")
    return _result(first.with_type(root.element_type))


_SPECIAL: dict[Opcode, Rule] = {
    Opcode.ABS: _abs,
    Opcode.REAL: _abs,
    Opcode.IMAG: _abs,
    Opcode.IS_FINITE: _is_finite,
    Opcode.COMPARE: _compare,
    Opcode.COMPLEX: _complex,
    Opcode.SELECT: _select,
    Opcode.CLAMP: _clamp,
    Opcode.CONVERT: _convert,
    Opcode.STOCHASTIC_CONVERT: _stochastic_convert,
    Opcode.BITCAST_CONVERT: _bitcast_convert,
    Opcode.REDUCE_PRECISION: _reduce_precision,
    Opcode.COPY: _copy,
    Opcode.MAP: _map,
}

ELEMENTWISE_RULES: dict[Opcode, Rule] = {
    op: _SPECIAL.get(op, _unary if op.arity == 1 else _binary) for op in Opcode if op.is_elementwise
}
