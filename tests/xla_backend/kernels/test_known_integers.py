"""Gathers whose indices are arithmetic on `iota` read as slices do; others keep their clamp."""

from __future__ import annotations

import re

import pytest
from native_checks import check_native, module_of

from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.from_hlo.lower import lower
from xla_backend.kernels.printer import kernel_to_text

# Programs of indices s[6] for x f32[40], and where x is read by an element.
KNOWN = {
    "sum": ("j = s32[6] constant({3,3,3,3,3,3})\nat = s32[6] add(i, j)", "i + 3"),
    "multiple": ("k = s32[] constant(5)\nj = s32[6] broadcast(k), dimensions={}\n"
                 "at = s32[6] multiply(j, i)", "5*i"),
    "down": ("j = s32[6] constant({30,30,30,30,30,30})\nat = s32[6] subtract(j, i)", "-i + 30"),
    "negated twice": ("n = s32[6] negate(i)\nat = s32[6] negate(n)", "i"),
    "wrapped": ("z = s32[6] constant({0,0,0,0,0,0})\nn = s32[6] constant({40,40,40,40,40,40})\n"
                "low = pred[6] compare(i, z), direction=LT\nj = s32[6] add(i, n)\n"
                "at = s32[6] select(low, j, i)", "i"),
    "always wrapped": ("z = s32[6] constant({9,9,9,9,9,9})\n"
                       "low = pred[6] compare(i, z), direction=LE\nj = s32[6] add(i, z)\n"
                       "at = s32[6] select(low, j, i)", "i + 9"),
    "quotient": ("d = s32[6] constant({4,4,4,4,4,4})\nat = s32[6] divide(i, d)", "(i // 4)"),
    "floor division": (
        "d = s32[6] constant({4,4,4,4,4,4})\nz = s32[6] constant({0,0,0,0,0,0})\n"
        "e = s32[6] constant({1,1,1,1,1,1})\nq = s32[6] divide(i, d)\n"
        "r = s32[6] remainder(i, d)\ns = s32[6] sign(i)\n"
        "a = pred[6] compare(s, e), direction=NE\nb = pred[6] compare(r, z), direction=NE\n"
        "up = pred[6] and(a, b)\nl = s32[6] subtract(q, e)\nat = s32[6] select(up, l, q)",
        "(i // 4)",
    ),
    "remainder": ("d = s32[6] constant({4,4,4,4,4,4})\nat = s32[6] remainder(i, d)", "(i % 4)"),
    "shifted": ("d = s32[6] constant({1,1,1,1,1,1})\n"
                "at = s32[6] shift-right-arithmetic(i, d)", "(i // 2)"),
    "masked": ("d = s32[6] constant({3,3,3,3,3,3})\nat = s32[6] and(i, d)", "(i % 4)"),
    "reversed": ("at = s32[6] reverse(i), dimensions={0}", "-i + 5"),
    "larger": ("d = s32[6] constant({7,7,7,7,7,7})\nj = s32[6] add(i, d)\n"
               "at = s32[6] maximum(d, j)", "i + 7"),
    "smaller": ("d = s32[6] constant({7,7,7,7,7,7})\nat = s32[6] minimum(d, i)", "i"),
    "clamped": ("a = s32[] constant(0)\nb = s32[] constant(5)\nat = s32[6] clamp(a, i, b)", "i"),
    "converted": ("at = s64[6] convert(i)", "i"),
    "joined": ("j = s32[3] slice(i), slice={[2:5]}\nk = s32[3] slice(i), slice={[0:3]}\n"
               "c = s32[6] concatenate(j, k), dimensions={0}\nd = s32[2] slice(c), slice={[0:2]}\n"
               "e = s32[2,3] broadcast(d), dimensions={0}\nat = s32[6] reshape(e)", "(i // 3) + 2"),
}  # fmt: skip
# Indices that are not known to be inside, or to be in their type, or are data.
OTHERS = {
    "beyond": "j = s32[6] constant({36,36,36,36,36,36})\nat = s32[6] add(i, j)",
    "below": "j = s32[6] constant({2,2,2,2,2,2})\nat = s32[6] subtract(i, j)",
    "overflowing": "n = u8[6] iota(), iota_dimension=0\nd = u8[6] constant({100,100,100,100,100,"
    "100})\nat = u8[6] multiply(n, d)",
    "negative quotient": "j = s32[6] constant({-3,-3,-3,-3,-3,-3})\nk = s32[6] add(i, j)\n"
    "d = s32[6] constant({2,2,2,2,2,2})\nat = s32[6] divide(k, d)",
    "squares": "at = s32[6] multiply(i, i)",
    "table": "at = s32[6] constant({3,1,4,1,5,9})",
    "chosen by data": "c = pred[6] parameter(1)\nj = s32[6] add(i, i)\nat = s32[6] select(c, i, j)",
    "data": "d = s32[6] parameter(1)\nat = s32[6] add(i, d)",
}


def program(indices: str) -> str:
    (type,) = re.findall(r"at = (\w+)", indices)
    return (
        f"x = f32[40] parameter(0)\ni = s32[6] iota(), iota_dimension=0\n{indices}\n"
        f"rows = {type}[6,1] reshape(at)\nROOT g = f32[6] gather(x, rows), offset_dims={{}}, "
        "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}"
    )


def kernel_of(body: str) -> str:
    """The loops of a program that is one fusion, before any pass simplifies its indices."""
    root = body.split("ROOT ")[1]
    parameters = re.findall(r"(\w+) = (\S+) parameter\((\d)\)", body)
    called = f"f {{\n{body}\n}}"
    result = root.split(" = ")[1].split(" ")[0]
    lines = [f"{name} = {type} parameter({number})" for name, type, number in parameters]
    names = ", ".join(name for name, _, _ in sorted(parameters, key=lambda p: p[2]))
    lines.append(f"ROOT r = {result} fusion({names}), kind=kLoop, calls=f")
    entry = module_of("\n".join(lines), called).entry
    assert entry is not None and entry.root is not None and entry.root.opcode is Opcode.FUSION
    return kernel_to_text(lower(entry.root, "k"))


@pytest.mark.parametrize("name", KNOWN)
def test_known_indices_are_places(name: str) -> None:
    indices, place = KNOWN[name]
    text = kernel_of(program(indices))
    assert f"p0[{place}]" in text
    assert "clamp" not in text
    check_native(module_of(program(indices)))


@pytest.mark.parametrize("name", OTHERS)
def test_other_indices_are_clamped(name: str) -> None:
    assert "clamp" in kernel_of(program(OTHERS[name]))
    check_native(module_of(program(OTHERS[name])))


def test_windows() -> None:
    """x[i + j], as indexing with two ranges is written, and a sum of it."""
    body = """
    x = f32[40] parameter(0)
    i = s32[7] iota(), iota_dimension=0
    j = s32[33] iota(), iota_dimension=0
    a = s32[7,33] broadcast(i), dimensions={0}
    b = s32[7,33] broadcast(j), dimensions={1}
    at = s32[7,33] add(a, b)
    z = s32[] constant(0)
    n = s32[] constant(40)
    zs = s32[7,33] broadcast(z), dimensions={}
    ns = s32[7,33] broadcast(n), dimensions={}
    low = pred[7,33] compare(at, zs), direction=LT
    up = s32[7,33] add(at, ns)
    wrapped = s32[7,33] select(low, up, at)
    rows = s32[7,33,1] reshape(wrapped)
    ROOT g = f32[7,33] gather(x, rows), offset_dims={}, collapsed_slice_dims={0},\
    start_index_map={0}, index_vector_dim=2, slice_sizes={1}
    """
    assert "p0[i + j]" in kernel_of(body)
    check_native(module_of(body))
