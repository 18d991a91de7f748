"""Reductions that need no kernel of their own."""

import pytest
from pass_checks import check_pass

from xla_backend.passes.algebraic_simplifier import AlgebraicSimplifier

REDUCER = """
HloModule m

combine {
  a = %TYPE%[] parameter(0)
  b = %TYPE%[] parameter(1)
  ROOT r = %TYPE%[] %OP%(a, b)
}
"""


def program(body: str, element_type: str = "f32", opcode: str = "add") -> str:
    head = REDUCER.replace("%TYPE%", element_type).replace("%OP%", opcode)
    return head + "\nENTRY main {\n" + body + "\n}\n"


CHANGES = {
    "sum of a reshape": program(
        "p = f32[6,1,20] parameter(0)\n z = f32[] constant(0)\n"
        " s = f32[6,20] reshape(p)\n"
        " // CHECK: reduce(%p, {{.*}}dimensions={2}\n"
        " ROOT r = f32[6] reduce(s, z), dimensions={1}, to_apply=combine"
    ),
    "some reduced dimensions of size 1": program(
        "p = f32[6,1,20] parameter(0)\n z = f32[] constant(0)\n"
        " // CHECK: = f32[6,1] reduce(%p, {{.*}}dimensions={2}\n"
        " ROOT r = f32[6] reduce(p, z), dimensions={1,2}, to_apply=combine"
    ),
    "maximum of copies": program(
        "p = f32[20] parameter(0)\n z = f32[] constant(-inf)\n"
        " b = f32[20,5] broadcast(p), dimensions={0}\n"
        " // CHECK-NOT: = f32[20] reduce(\n"
        " ROOT r = f32[20] reduce(b, z), dimensions={1}, to_apply=combine",
        opcode="maximum",
    ),
    "sum of equal integers": program(
        "p = s32[20] parameter(0)\n z = s32[] constant(3)\n"
        " b = s32[2,20,5] broadcast(p), dimensions={1}\n"
        " // CHECK: constant(5)\n // CHECK-NOT: = s32[2,20] reduce(\n"
        " ROOT r = s32[2,20] reduce(b, z), dimensions={2}, to_apply=combine",
        element_type="s32",
    ),
    "size of a dimension": program(
        "p = f32[7,4] parameter(0)\n // CHECK: ROOT {{.*}} constant(4)\n"
        " ROOT r = s32[] get-dimension-size(p), dimensions={1}"
    ),
}
KEPT = {
    "a sum": program(
        "p = f32[6,20] parameter(0)\n z = f32[] constant(0)\n"
        " ROOT r = f32[6] reduce(p, z), dimensions={1}, to_apply=combine"
    ),
    "a float sum of copies, which rounds": program(
        "p = f32[20] parameter(0)\n z = f32[] constant(0)\n"
        " b = f32[20,5] broadcast(p), dimensions={0}\n"
        " ROOT r = f32[20] reduce(b, z), dimensions={1}, to_apply=combine"
    ),
    "a maximum along the operand": program(
        "p = f32[20] parameter(0)\n z = f32[] constant(0)\n"
        " b = f32[20,5] broadcast(p), dimensions={0}\n"
        " ROOT r = f32[5] reduce(b, z), dimensions={0}, to_apply=combine",
        opcode="maximum",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes(name):
    check_pass(AlgebraicSimplifier(), CHANGES[name])


@pytest.mark.parametrize("name", KEPT)
def test_keeps(name):
    check_pass(AlgebraicSimplifier(), KEPT[name], expect_change=False)
