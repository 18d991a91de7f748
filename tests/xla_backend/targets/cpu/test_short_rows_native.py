"""Short rows, strides and repeated elements: vectors of whole lanes, without gathers."""

import re

import pytest
from native_checks import check_native, check_text, module_of

from xla_backend.compile_options import CompileOptions
from xla_backend.targets.cpu.compiler import compile_module

PROGRAMS = {
    "each twice": "x = T[50,13] parameter(0)\nROOT r = T[50,13,2] broadcast(x), dimensions={0,1}",
    "each four times": "x = T[1003] parameter(0)\nROOT r = T[1003,4] broadcast(x), dimensions={0}",
    "each three times": "x = T[1003] parameter(0)\nROOT r = T[1003,3] broadcast(x), dimensions={0}",
    "rows again and again": "x = T[4] parameter(0)\nROOT r = T[99,4] broadcast(x), dimensions={1}",
    "every second": "x = T[201] parameter(0)\nROOT r = T[100] slice(x), slice={[1:201:2]}",
    "every third": "x = T[304] parameter(0)\nROOT r = T[101] slice(x), slice={[1:304:3]}",
    "columns": "x = T[101,3] parameter(0)\nROOT r = T[101,1] slice(x), slice={[0:101], [2:3]}",
    "every second row": (
        "x = T[101,2,2] parameter(0)\nROOT r = T[50,2,2] slice(x), slice={[1:101:2], [0:2], [0:2]}"
    ),
    "small matrices transposed": (
        "x = T[77,2,4] parameter(0)\nROOT r = T[77,4,2] transpose(x), dimensions={0,2,1}"
    ),
    "small matrices reversed": (
        "x = T[77,2,4] parameter(0)\nROOT r = T[77,2,4] reverse(x), dimensions={1,2}"
    ),
    "rows in turn": (
        "x = T[77,1,2] parameter(0)\ny = T[77,1,2] parameter(1)\n"
        "ROOT r = T[77,2,2] concatenate(x, y), dimensions={1}"
    ),
    "small matrices padded": (
        "x = T[77,2,2] parameter(0)\nz = T[] constant(1)\n"
        "ROOT r = T[77,4,4] pad(x, z), padding=0_0x1_1x2_0"
    ),
    "sums of short rows": (
        "x = T[90,4,2] parameter(0)\nz = T[] constant(0)\n"
        "s = T[90,2] reduce(x, z), dimensions={1}, to_apply=add\n"
        "ROOT r = T[90,2,2] broadcast(s), dimensions={0,1}"
    ),
}
ADD = "add {\n a = T[] parameter(0)\n b = T[] parameter(1)\n ROOT c = T[] add(a, b)\n}\n"


@pytest.mark.parametrize("type", ["f32", "u8", "f64", "c64"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_short_rows(name: str, type: str) -> None:
    check_native(module_of(PROGRAMS[name].replace("T[", f"{type}["), ADD.replace("T[", f"{type}[")))


def test_tiny_products() -> None:
    for m, k, n in ((2, 2, 2), (3, 3, 3), (4, 4, 4), (1, 3, 4), (4, 2, 1)):
        body = (
            f"x = f32[37,{m},{k}] parameter(0)\ny = f32[37,{k},{n}] parameter(1)\n"
            f"ROOT r = f32[37,{m},{n}] dot(x, y), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, "
            "lhs_contracting_dims={2}, rhs_contracting_dims={1}"
        )
        check_native(module_of(body))


@pytest.mark.parametrize(
    "body",
    [
        "x = f32[1600] parameter(0)\nROOT r = f32[1600,4] broadcast(x), dimensions={0}",
        "x = f32[4800] parameter(0)\nROOT r = f32[1600] slice(x), slice={[1:4800:3]}",
        "x = f32[1600,2,2] parameter(0)\n"
        "ROOT r = f32[800,2,2] slice(x), slice={[1:1600:2], [0:2], [0:2]}",
    ],
    ids=["each four times", "every third", "every second row"],
)
def test_no_lane_goes_to_memory_alone(body: str) -> None:
    text = compile_module(module_of(body), CompileOptions()).llvm_ir
    assert "shufflevector" in text and "gather" not in text and "extractelement" not in text


def test_the_loops_of_repeated_elements_are_one() -> None:
    body = "x = f32[160] parameter(0)\nROOT r = f32[160,4] broadcast(x), dimensions={0}"
    executable = compile_module(module_of(body), CompileOptions())
    check_text(
        "\n".join(executable.loop_ir.values()),
        """
        // CHECK: for i in range(10):
        // CHECK-NEXT: for lane in lanes(64):
        // CHECK-NEXT: v0 = p0[16*i + (lane // 4)]
        """,
    )
    assert "gather" not in executable.llvm_ir


def test_a_row_that_may_not_be_there_is_read_from_zeros() -> None:
    """A condition that is the same in all lanes chooses an address. Masked loads without any lane
    from an address that is none of the process take hundreds of cycles."""
    body = """x = f32[1,1024] parameter(0)
        y = f32[1,1024] parameter(1)
        c = f32[2,1024] concatenate(x, y), dimensions={0}
        d = f32[1024] parameter(2)
        b = f32[2,1024] broadcast(d), dimensions={1}
        ROOT r = f32[2,1024] add(c, b)"""
    text = check_native(module_of(body)).llvm_ir
    assert re.search(r"select i1 \S+, ptr", text) and "masked" not in text
