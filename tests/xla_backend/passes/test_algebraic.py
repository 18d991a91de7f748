"""Each algebraic rule: one program it changes (and to what), and look-alikes it must leave."""

import pytest
from pass_checks import check_pass

from xla_backend.passes.algebraic_simplifier import AlgebraicSimplifier

# name: (parameters, instructions, type and expression expected for the root)
CHANGES = {
    "mul-one": (
        "f32[20]",
        (
            "c = f32[] constant(1)\n"
            " b = f32[20] broadcast(c), dimensions={}\n"
            " ROOT r = f32[20] multiply(p0, b)"
        ),
        "f32[20] parameter(0)",
    ),
    "sub-zero": (
        "f32[20]",
        (
            "c = f32[] constant(0)\n"
            " b = f32[20] broadcast(c), dimensions={}\n"
            " ROOT r = f32[20] subtract(p0, b)"
        ),
        "f32[20] parameter(0)",
    ),
    "add-negative-zero": (
        "f32[20]",
        (
            "c = f32[] constant(-0.0)\n"
            " b = f32[20] broadcast(c), dimensions={}\n"
            " ROOT r = f32[20] add(b, p0)"
        ),
        "f32[20] parameter(0)",
    ),
    "add-int-zero": (
        "s32[4]",
        (
            "c = s32[] constant(0)\n"
            " b = s32[4] broadcast(c), dimensions={}\n"
            " ROOT r = s32[4] add(p0, b)"
        ),
        "s32[4] parameter(0)",
    ),
    "int-times-zero": (
        "s32[4]",
        (
            "c = s32[] constant(0)\n"
            " b = s32[4] broadcast(c), dimensions={}\n"
            " ROOT r = s32[4] multiply(p0, b)"
        ),
        "s32[4] broadcast(",
    ),
    "int-minus-itself": (
        "s32[4]",
        "ROOT r = s32[4] subtract(p0, p0)",
        "s32[4] broadcast(",
    ),
    "divide-by-eight": (
        "f32[20]",
        (
            "c = f32[] constant(8)\n"
            " b = f32[20] broadcast(c), dimensions={}\n"
            " ROOT r = f32[20] divide(p0, b)"
        ),
        "f32[20] multiply(",
    ),
    "divide-one": (
        "f32[20]",
        (
            "c = f32[] constant(1)\n"
            " b = f32[20] broadcast(c), dimensions={}\n"
            " ROOT r = f32[20] divide(p0, b)"
        ),
        "f32[20] parameter(0)",
    ),
    "power-two": (
        "f32[20]",
        (
            "c = f32[] constant(2)\n"
            " b = f32[20] broadcast(c), dimensions={}\n"
            " ROOT r = f32[20] power(p0, b)"
        ),
        "f32[20] multiply(",
    ),
    "power-one": (
        "f32[20]",
        (
            "c = f32[] constant(1)\n"
            " b = f32[20] broadcast(c), dimensions={}\n"
            " ROOT r = f32[20] power(p0, b)"
        ),
        "f32[20] parameter(0)",
    ),
    "negate-negate": (
        "f32[20]",
        ("a = f32[20] negate(p0)\n ROOT r = f32[20] negate(a)"),
        "f32[20] parameter(0)",
    ),
    "not-not": (
        "pred[4]",
        ("a = pred[4] not(p0)\n ROOT r = pred[4] not(a)"),
        "pred[4] parameter(0)",
    ),
    "abs-negate": (
        "f32[20]",
        ("a = f32[20] negate(p0)\n ROOT r = f32[20] abs(a)"),
        "f32[20] abs(",
    ),
    "max-itself": (
        "f32[20]",
        "ROOT r = f32[20] maximum(p0, p0)",
        "f32[20] parameter(0)",
    ),
    "and-true": (
        "pred[4]",
        (
            "c = pred[] constant(true)\n"
            " b = pred[4] broadcast(c), dimensions={}\n"
            " ROOT r = pred[4] and(p0, b)"
        ),
        "pred[4] parameter(0)",
    ),
    "or-false": (
        "pred[4]",
        (
            "c = pred[] constant(false)\n"
            " b = pred[4] broadcast(c), dimensions={}\n"
            " ROOT r = pred[4] or(p0, b)"
        ),
        "pred[4] parameter(0)",
    ),
    "shift-zero": (
        "s32[4]",
        (
            "c = s32[] constant(0)\n"
            " b = s32[4] broadcast(c), dimensions={}\n"
            " ROOT r = s32[4] shift-left(p0, b)"
        ),
        "s32[4] parameter(0)",
    ),
    "select-same": (
        "pred[4], f32[4]",
        "ROOT r = f32[4] select(p0, p1, p1)",
        "f32[4] parameter(1)",
    ),
    "select-not": (
        "pred[4], f32[4], f32[4]",
        ("n = pred[4] not(p0)\n ROOT r = f32[4] select(n, p1, p2)"),
        "f32[4] select(",
    ),
    "select-true": (
        "f32[4], f32[4]",
        (
            "c = pred[] constant(true)\n"
            " b = pred[4] broadcast(c), dimensions={}\n"
            " ROOT r = f32[4] select(b, p0, p1)"
        ),
        "f32[4] parameter(0)",
    ),
    "imag-complex": (
        "f32[4], f32[4]",
        ("z = c64[4] complex(p0, p1)\n ROOT r = f32[4] imag(z)"),
        "f32[4] parameter(1)",
    ),
    "convert-there-and-back": (
        "bf16[20]",
        ("a = f32[20] convert(p0)\n ROOT r = bf16[20] convert(a)"),
        "bf16[20] parameter(0)",
    ),
    "reduce-precision-none": (
        "f32[20]",
        "ROOT r = f32[20] reduce-precision(p0), exponent_bits=8, mantissa_bits=23",
        "f32[20] parameter(0)",
    ),
    "copy": (
        "f32[4]",
        "ROOT r = f32[4] copy(p0)",
        "f32[4] parameter(0)",
    ),
    "of-splats": (
        "f32[], f32[]",
        (
            "a = f32[3] broadcast(p0), dimensions={}\n"
            " b = f32[3] broadcast(p1), dimensions={}\n"
            " ROOT r = f32[3] add(a, b)"
        ),
        "f32[3] broadcast(",
    ),
    "broadcast-broadcast": (
        "f32[3]",
        (
            "a = f32[2,3] broadcast(p0), dimensions={1}\n"
            " ROOT r = f32[4,2,3] broadcast(a), dimensions={1,2}"
        ),
        "f32[4,2,3] broadcast(",
    ),
    "broadcast-of-merged-broadcast": (
        "f32[5,3]",
        (
            "a = f32[2,5,1,3] broadcast(p0), dimensions={1,3}\n b = f32[10,3] reshape(a)\n"
            " ROOT r = f32[10,3,4] broadcast(b), dimensions={0,1}"
        ),
        "f32[10,3,4] reshape(",
    ),
    "broadcast-nothing": (
        "f32[3]",
        "ROOT r = f32[3] broadcast(p0), dimensions={0}",
        "f32[3] parameter(0)",
    ),
    "broadcast-size-one": (
        "f32[3]",
        "ROOT r = f32[3,1] broadcast(p0), dimensions={0}",
        "f32[3,1] reshape(",
    ),
    "reshape-reshape": (
        "f32[6]",
        ("a = f32[2,3] reshape(p0)\n ROOT r = f32[3,2] reshape(a)"),
        "f32[3,2] reshape(",
    ),
    "reshape-of-broadcast": (
        "f32[3]",
        ("a = f32[2,3] broadcast(p0), dimensions={1}\n ROOT r = f32[2,1,3] reshape(a)"),
        "f32[2,1,3] broadcast(",
    ),
    "transpose-identity": (
        "f32[2,3]",
        "ROOT r = f32[2,3] transpose(p0), dimensions={0,1}",
        "f32[2,3] parameter(0)",
    ),
    "transpose-twice": (
        "f32[2,3,4]",
        (
            "a = f32[3,4,2] transpose(p0), dimensions={1,2,0}\n"
            " ROOT r = f32[4,3,2] transpose(a), dimensions={1,0,2}"
        ),
        "f32[4,3,2] transpose(",
    ),
    "transpose-degenerate": (
        "f32[2,1,4]",
        "ROOT r = f32[1,2,4] transpose(p0), dimensions={1,0,2}",
        "f32[1,2,4] reshape(",
    ),
    "transpose-of-broadcast": (
        "f32[3]",
        (
            "a = f32[2,3] broadcast(p0), dimensions={1}\n"
            " ROOT r = f32[3,2] transpose(a), dimensions={1,0}"
        ),
        "f32[3,2] broadcast(",
    ),
    "slice-all": (
        "f32[4]",
        "ROOT r = f32[4] slice(p0), slice={[0:4]}",
        "f32[4] parameter(0)",
    ),
    "slice-slice": (
        "f32[20]",
        ("a = f32[8] slice(p0), slice={[1:17:2]}\n ROOT r = f32[3] slice(a), slice={[1:7:2]}"),
        "f32[3] slice(",
    ),
    "slice-of-concatenate": (
        "f32[4], f32[5]",
        (
            "a = f32[9] concatenate(p0, p1), dimensions={0}\n"
            " ROOT r = f32[2] slice(a), slice={[5:7]}"
        ),
        "f32[2] slice({{.*}}), slice={[1:3",
    ),
    "slice-of-whole-operands": (
        "f32[4], f32[5], f32[6]",
        (
            "a = f32[15] concatenate(p0, p1, p2), dimensions={0}\n"
            " ROOT r = f32[11] slice(a), slice={[4:15]}"
        ),
        "f32[11] concatenate(",
    ),
    "slice-of-whole-operands-with-steps": (
        "f32[4], f32[5], f32[6]",
        (
            "a = f32[15] concatenate(p0, p1, p2), dimensions={0}\n"
            " ROOT r = f32[6] slice(a), slice={[4:15:2]}"
        ),
        "f32[6] concatenate({{%[^ ]+}}, {{%[^ ]+}}), dimensions={0}",
    ),
    "strided-slice-of-concatenate": (
        "f32[4], f32[5], f32[6]",
        (
            "a = f32[15] concatenate(p0, p1, p2), dimensions={0}\n"
            " ROOT r = f32[5] slice(a), slice={[1:14:3]}"
        ),
        "f32[5] concatenate({{%[^ ]+}}, {{%[^ ]+}}, {{%[^ ]+}}), dimensions={0}",
    ),
    "strided-slice-between-operands": (
        "f32[2,4], f32[2,1], f32[2,6]",
        (
            "a = f32[2,11] concatenate(p0, p1, p2), dimensions={1}\n"
            " ROOT r = f32[2,4] slice(a), slice={[0:2:1], [0:10:3]}"
        ),
        "f32[2,4] concatenate({{%[^ ]+}}, {{%[^ ]+}}), dimensions={1}",
    ),
    "pad-nothing": (
        "f32[4], f32[]",
        "ROOT r = f32[4] pad(p0, p1), padding=0_0",
        "f32[4] parameter(0)",
    ),
    "pad-negative": (
        "f32[4], f32[]",
        "ROOT r = f32[2] pad(p0, p1), padding=-1_-1",
        "f32[2] slice(",
    ),
    "concatenate-one": (
        "f32[4]",
        "ROOT r = f32[4] concatenate(p0), dimensions={0}",
        "f32[4] parameter(0)",
    ),
    "concatenate-empty": (
        "f32[4], f32[0]",
        "ROOT r = f32[4] concatenate(p0, p1), dimensions={0}",
        "f32[4] parameter(0)",
    ),
    "concatenate-nested": (
        "f32[4], f32[3]",
        (
            "a = f32[7] concatenate(p0, p1), dimensions={0}\n"
            " ROOT r = f32[11] concatenate(a, p0), dimensions={0}"
        ),
        "f32[11] concatenate({{%[^ ]+}}, {{%[^ ]+}}, {{%[^ ]+}})",
    ),
    "concatenate-neighbours-of-all": (
        "f32[6,3]",
        (
            "a = f32[6,1] slice(p0), slice={[0:6], [0:1]}\n"
            "b = f32[6,2] slice(p0), slice={[0:6], [1:3]}\n"
            " ROOT r = f32[6,3] concatenate(a, b), dimensions={1}"
        ),
        "f32[6,3] parameter(0)",
    ),
    "concatenate-neighbours": (
        "f32[9], f32[2]",
        (
            "a = f32[3] slice(p0), slice={[1:4]}\n"
            "b = f32[4] slice(p0), slice={[4:8]}\n"
            " ROOT r = f32[9] concatenate(a, b, p1), dimensions={0}"
        ),
        "f32[9] concatenate({{%[^ ]+}}, {{%[^ ]+}})",
    ),
    "reverse-twice": (
        "f32[4]",
        ("a = f32[4] reverse(p0), dimensions={0}\n ROOT r = f32[4] reverse(a), dimensions={0}"),
        "f32[4] parameter(0)",
    ),
    "reverse-size-one": (
        "f32[1,4]",
        "ROOT r = f32[1,4] reverse(p0), dimensions={0}",
        "f32[1,4] parameter(0)",
    ),
    "dynamic-slice-all": (
        "f32[4], s32[]",
        "ROOT r = f32[4] dynamic-slice(p0, p1), dynamic_slice_sizes={4}",
        "f32[4] parameter(0)",
    ),
    "dynamic-slice-constant": (
        "f32[4]",
        ("c = s32[] constant(3)\n ROOT r = f32[2] dynamic-slice(p0, c), dynamic_slice_sizes={2}"),
        "f32[2] slice({{.*}}), slice={[2:4",
    ),
    "dynamic-update-all": (
        "f32[4], f32[4], s32[]",
        "ROOT r = f32[4] dynamic-update-slice(p0, p1, p2)",
        "f32[4] parameter(1)",
    ),
    "dot-of-transpose": (
        "f32[3,2], f32[3,4]",
        (
            "a = f32[2,3] transpose(p0), dimensions={1,0}\n"
            " ROOT r = f32[2,4] dot(a, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
        ),
        "f32[2,4] dot({{.*}}), lhs_contracting_dims={0}",
    ),
    "transpose-of-dot": (
        "f32[2,3], f32[3,4]",
        (
            "a = f32[2,4] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
            " ROOT r = f32[4,2] transpose(a), dimensions={1,0}"
        ),
        "f32[4,2] dot(",
    ),
    "gather-one-row": (
        "f32[5,3], s32[1]",
        (
            "ROOT r = f32[3] gather(p0, p1), offset_dims={0}, collapsed_slice_dims={0}, "
            "start_index_map={0}, index_vector_dim=0, slice_sizes={1,3}"
        ),
        "f32[3] reshape(",
    ),
}

KEPT = {
    "strided-slice-of-concatenate-that-is-used": (
        "f32[4], f32[5]",
        (
            "a = f32[9] concatenate(p0, p1), dimensions={0}\n"
            " b = f32[3] slice(a), slice={[1:8:3]}\n"
            " ROOT t = (f32[9], f32[3]) tuple(a, b)"
        ),
    ),
    "add-zero": (
        "f32[20]",
        (
            "c = f32[] constant(0)\n"
            " b = f32[20] broadcast(c), dimensions={}\n"
            " ROOT r = f32[20] add(p0, b)"
        ),
    ),
    "sub-negative-zero": (
        "f32[20]",
        (
            "c = f32[] constant(-0.0)\n"
            " b = f32[20] broadcast(c), dimensions={}\n"
            " ROOT r = f32[20] subtract(p0, b)"
        ),
    ),
    "float-times-zero": (
        "f32[20]",
        (
            "c = f32[] constant(0)\n"
            " b = f32[20] broadcast(c), dimensions={}\n"
            " ROOT r = f32[20] multiply(p0, b)"
        ),
    ),
    "float-minus-itself": (
        "f32[20]",
        "ROOT r = f32[20] subtract(p0, p0)",
    ),
    "divide-by-three": (
        "f32[20]",
        (
            "c = f32[] constant(3)\n"
            " b = f32[20] broadcast(c), dimensions={}\n"
            " ROOT r = f32[20] divide(p0, b)"
        ),
    ),
    "power-half": (
        "f32[20]",
        (
            "c = f32[] constant(0.5)\n"
            " b = f32[20] broadcast(c), dimensions={}\n"
            " ROOT r = f32[20] power(p0, b)"
        ),
    ),
    "complex-times-one": (
        "c64[4]",
        (
            "c = c64[] constant((1, 0))\n"
            " b = c64[4] broadcast(c), dimensions={}\n"
            " ROOT r = c64[4] multiply(p0, b)"
        ),
    ),
    "convert-narrow-and-back": (
        "f32[20]",
        ("a = bf16[20] convert(p0)\n ROOT r = f32[20] convert(a)"),
    ),
    "convert-through-int": (
        "f32[4]",
        ("a = s32[4] convert(p0)\n ROOT r = f32[4] convert(a)"),
    ),
    "transpose": (
        "f32[2,3]",
        "ROOT r = f32[3,2] transpose(p0), dimensions={1,0}",
    ),
    "slice-across-concatenate": (
        "f32[4], f32[5]",
        (
            "a = f32[9] concatenate(p0, p1), dimensions={0}\n"
            " ROOT r = f32[4] slice(a), slice={[2:6]}"
        ),
    ),
    "concatenate-slices-with-a-gap": (
        "f32[9]",
        (
            "a = f32[3] slice(p0), slice={[1:4]}\n"
            "b = f32[4] slice(p0), slice={[5:9]}\n"
            " ROOT r = f32[7] concatenate(a, b), dimensions={0}"
        ),
    ),
    "concatenate-slices-of-other-rows": (
        "f32[9,4]",
        (
            "a = f32[8,2] slice(p0), slice={[0:8], [0:2]}\n"
            "b = f32[8,2] slice(p0), slice={[1:9], [2:4]}\n"
            " ROOT r = f32[8,4] concatenate(a, b), dimensions={1}"
        ),
    ),
    "concatenate-slices-with-steps": (
        "f32[9]",
        (
            "a = f32[2] slice(p0), slice={[0:4:2]}\n"
            "b = f32[2] slice(p0), slice={[4:8:2]}\n"
            " ROOT r = f32[4] concatenate(a, b), dimensions={0}"
        ),
    ),
    "slice-of-whole-operands-across": (
        "f32[4,3], f32[5,3], f32[6,3]",
        (
            "a = f32[15,3] concatenate(p0, p1, p2), dimensions={0}\n"
            " ROOT r = f32[11,2] slice(a), slice={[4:15], [0:2]}"
        ),
    ),
    "dot-free-dimensions-out-of-order": (
        "f32[3,2,5], f32[3,4]",
        (
            "a = f32[5,2,3] transpose(p0), dimensions={2,1,0}\n"
            " ROOT r = f32[5,2,4] dot(a, p1), lhs_contracting_dims={2}, rhs_contracting_dims={0}"
        ),
    ),
    "dynamic-slice": (
        "f32[4], s32[]",
        "ROOT r = f32[2] dynamic-slice(p0, p1), dynamic_slice_sizes={2}",
    ),
}


def program(parameters: str, body: str, check: str = "") -> str:
    shapes = _split(parameters)
    lines = [f"p{i} = {shape} parameter({i})" for i, shape in enumerate(shapes)]
    comment = f"// CHECK: ROOT {{{{.*}}}} = {check}" if check else ""
    return "HloModule m\n\nENTRY main {\n" + "\n".join(lines) + "\n" + body + f"\n}}\n{comment}\n"


def _split(parameters: str) -> list[str]:
    return [p.strip() for p in parameters.replace("], ", "]|").split("|")]


@pytest.mark.parametrize("name", CHANGES)
def test_changes(name):
    parameters, body, check = CHANGES[name]
    check_pass(AlgebraicSimplifier(), program(parameters, body, check))


@pytest.mark.parametrize("name", KEPT)
def test_keeps(name):
    check_pass(AlgebraicSimplifier(), program(*KEPT[name]), expect_change=False)
