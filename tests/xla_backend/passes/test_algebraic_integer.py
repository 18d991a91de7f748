"""x // 2**k and x % 2**k as jax writes them: one instruction each."""

import numpy as np
import pytest
from pass_checks import check_pass

import pyjax
import pyjax.numpy as jnp
from xla_backend.passes.algebraic_simplifier import AlgebraicSimplifier

FLOOR = """
one = {t}[] constant(1)
ones = {t}[40] broadcast(one), dimensions={{}}
zero = {t}[] constant(0)
zeros = {t}[40] broadcast(zero), dimensions={{}}
c = {t}[] constant({c})
cs = {t}[40] broadcast(c), dimensions={{}}
quotient = {t}[40] divide(p0, cs)
rest = {t}[40] remainder({other}, cs)
sign = {t}[40] sign(p0)
negative = pred[40] compare(sign, ones), direction={direction}
remains = pred[40] compare(rest, zeros), direction=NE
both = pred[40] and({order})
less = {t}[40] subtract(quotient, ones)
ROOT r = {t}[40] select(both, less, quotient)
"""
MODULUS = """
zero = {t}[] constant(0)
zeros = {t}[40] broadcast(zero), dimensions={{}}
false = pred[] constant(false)
falses = pred[40] broadcast(false), dimensions={{}}
c = {t}[] constant({c})
cs = {t}[40] broadcast(c), dimensions={{}}
rest = {t}[40] remainder(p0, cs)
remains = pred[40] compare(rest, zeros), direction=NE
below = pred[40] compare(rest, zeros), direction={direction}
differs = pred[40] compare(below, falses), direction=NE
both = pred[40] and({order})
more = {t}[40] add(rest, cs)
ROOT r = {t}[40] select(both, more, rest)
"""


def program(body: str, check: str = "", t: str = "s32", c: int = 8, **how: str) -> str:
    is_floor = body is FLOOR
    default = {"direction": "NE", "order": "negative, remains", "other": "p0"}
    if not is_floor:
        default |= {"direction": "LT", "order": "differs, remains"}
    text = body.format(t=t, c=c, **(default | how))
    comment = f"// CHECK: ROOT {{{{.*}}}} = {t}[40] {check}" if check else ""
    parameters = f"p0 = {t}[40] parameter(0)\np1 = {t}[40] parameter(1)"
    return f"HloModule m\n\nENTRY main {{\n{parameters}\n{text}\n}}\n{comment}\n"


@pytest.mark.parametrize("t", ["s8", "s16", "s32", "s64"])
@pytest.mark.parametrize("order", ["negative, remains", "remains, negative"])
def test_floor_division(t: str, order: str) -> None:
    text = program(FLOOR, "shift-right-arithmetic(%p0, ", t=t, order=order)
    check_pass(AlgebraicSimplifier(), text)


@pytest.mark.parametrize("t", ["s8", "s16", "s32", "s64"])
@pytest.mark.parametrize("order", ["differs, remains", "remains, differs"])
def test_modulus(t: str, order: str) -> None:
    check_pass(AlgebraicSimplifier(), program(MODULUS, "and(%p0, ", t=t, order=order))


@pytest.mark.parametrize(
    "text",
    [
        program(FLOOR, "select(", c=-6),
        program(FLOOR, "select(", c=-8),
        program(FLOOR, "select(", other="p1"),
        program(FLOOR, "select(", direction="EQ"),
        program(MODULUS, "select(", c=-6),
        program(MODULUS, "select(", direction="GT"),
    ],
)
def test_what_only_looks_like_it(text: str) -> None:
    # The comparison with false goes in any case.
    module = check_pass(AlgebraicSimplifier(), text, expect_change="falses" in text)
    assert module.entry.root.opcode.value == "select"


@pytest.mark.parametrize("text", [program(FLOOR, c=6), program(MODULUS, c=6)])
def test_other_constants(text: str) -> None:
    """Whether the remainder is negative is all that is asked."""
    module = check_pass(AlgebraicSimplifier(), text)
    root = module.entry.root
    assert root.operands[0].opcode.value == "compare"
    assert root.operands[0].operands[0].opcode.value == "remainder"


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32"])
def test_as_numpy_does(dtype: str) -> None:
    limits = np.iinfo(dtype)
    x = np.array([limits.min, limits.min + 1, -65, -64, -2, -1, 0, 1, 63, 64, limits.max], dtype)
    for divisor in (2, 16, 64):
        f = pyjax.jit(lambda x, divisor=divisor: (x // divisor, x % divisor))
        text = f.lower(x).compile().as_text()
        assert "divide" not in text and "remainder" not in text
        for found, right in zip(f(jnp.asarray(x)), (x // divisor, x % divisor)):
            np.testing.assert_array_equal(found, right)
    for divisor in (1, 3, 9, 100, limits.max, -3, -1):
        f = pyjax.jit(lambda x, divisor=divisor: (x // divisor, x % divisor))
        with np.errstate(over="ignore"):
            expected = x // np.array(divisor, dtype), x % np.array(divisor, dtype)
        for found, right in zip(f(jnp.asarray(x)), expected):
            np.testing.assert_array_equal(found, right)
