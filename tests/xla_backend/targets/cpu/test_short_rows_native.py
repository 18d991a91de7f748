"""Short rows, strides and repeated elements: vectors of whole lanes, without gathers."""

import re

import numpy as np
import pytest
from native_checks import arguments_of, check_native, check_text, module_of

from xla_backend.compile_options import CompileOptions
from xla_backend.llvm.target import host_target
from xla_backend.runtime.host_threads import num_threads, set_num_threads
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
    "rows of three": (
        "x = T[334,3] parameter(0)\ny = T[3] parameter(1)\n"
        "w = T[334,3] broadcast(y), dimensions={1}\nROOT r = T[334,3] multiply(x, w)"
    ),
    "rows of 14 and their values": (
        "x = T[67,14] parameter(0)\ny = T[67] parameter(1)\n"
        "w = T[67,14] broadcast(y), dimensions={0}\nROOT r = T[67,14] add(x, w)"
    ),
    "rows of ten and their values": (
        "x = T[67,10] parameter(0)\ny = T[67] parameter(1)\n"
        "w = T[67,10] broadcast(y), dimensions={0}\nROOT r = T[67,10] add(x, w)"
    ),
    "channels last": "x = T[3,401] parameter(0)\nROOT r = T[401,3] transpose(x), dimensions={1,0}",
    "channels first": "x = T[401,5] parameter(0)\nROOT r = T[5,401] transpose(x), dimensions={1,0}",
    "three stacked": (
        "x = T[203,1] parameter(0)\ny = T[203,1] parameter(1)\nn = T[203,1] add(x, y)\n"
        "ROOT r = T[203,3] concatenate(x, n, y), dimensions={1}"
    ),
    "eight stacked": (
        "x = T[101,1] parameter(0)\ny = T[101,1] parameter(1)\n"
        "ROOT r = T[101,8] concatenate(x, y, y, x, x, x, y, x), dimensions={1}"
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
        "x = f32[1600,1] parameter(0)\ny = f32[1600,1] parameter(1)\n"
        "ROOT r = f32[1600,3] concatenate(x, y, x), dimensions={1}",
        "x = f32[3,1600] parameter(0)\nROOT r = f32[1600,3] transpose(x), dimensions={1,0}",
    ],
    ids=["each four times", "every third", "every second row", "stacked", "channels last"],
)
def test_no_lane_goes_to_memory_alone(body: str) -> None:
    text = compile_module(module_of(body), CompileOptions()).llvm_ir
    assert (
        "shufflevector" in text
        and "gather" not in text
        and "scatter" not in text
        and "extractelement" not in text
    )


def test_same_bits_on_any_number_of_threads() -> None:
    """Vectors in turns, the iterations after them, and stores between each other, in blocks."""
    body = """
    x = f32[40001,3] parameter(0)
    y = f32[40001] parameter(1)
    w = f32[40001,3] broadcast(y), dimensions={0}
    q = f32[40001,3] divide(x, w)
    e = f32[40001,3] exponential(q)
    a = f32[40001,1] slice(x), slice={[0:40001], [0:1]}
    b = f32[40001,1] slice(x), slice={[0:40001], [2:3]}
    m = f32[40001,1] multiply(a, b)
    s = f32[40001,1] subtract(a, b)
    j = f32[40001,3] concatenate(m, s, a), dimensions={1}
    ROOT r = (f32[40001,3], f32[40001,3]) tuple(e, j)
    """
    module = module_of(body)
    x, y = arguments_of(module)
    x[::7, 1], x[3::11, 0], x[5::13, 2], y[::17] = np.nan, -0.0, np.inf, 0.0
    executable = check_native(module, [x, y])
    before, found = num_threads(), []
    try:
        for threads in (1, 2, 7):
            set_num_threads(threads)
            found.append([np.asarray(r).tobytes() for r in executable.run_arrays([x, y])])
    finally:
        set_num_threads(before)
    assert found[0] == found[1] == found[2]


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


@pytest.mark.skipif(host_target().lanes(32) != 16, reason="rows fill shorter vectors")
@pytest.mark.parametrize("columns", [12, 14, 15])
def test_rows_that_may_be_finished_in_place_are_one_loop(columns: int) -> None:
    """Row by row each would wait for what the one before has just stored under a mask."""
    shape = f"f32[1000,{columns}]"
    executable = check_native(
        module_of(f"""x = {shape} parameter(0)
      y = f32[1000] parameter(1)
      w = {shape} broadcast(y), dimensions={{0}}
      ROOT r = {shape} divide(x, w)""")
    )
    (loops,) = executable.loop_ir.values()
    assert f"lane < {columns}" not in str(loops)


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


ROLLED = """x = f32[1024] parameter(0)
        k = s32[] parameter(1)
        c = f32[2048] concatenate(x, x), dimensions={0}
        s = f32[1024] dynamic-slice(c, k), dynamic_slice_sizes={1024}
        ROOT r = f32[1024] add(s, x)"""


def test_lanes_of_which_none_is_there_are_read_from_zeros() -> None:
    """The same where the condition differs between lanes: of most vectors one operand has none."""
    executable = compile_module(module_of(ROLLED), CompileOptions())
    text = executable.llvm_ir
    assert len(re.findall(r"vector\.reduce\.or", text)) >= 2
    assert re.search(r"select i1 \S+, ptr", text)
    x = np.arange(1024, dtype=np.float32)
    for k in (0, 1, 15, 16, 500, 1023, 1024):
        (result,) = executable.run_arrays([x, np.int32(k)])
        assert np.array_equal(result, np.concatenate([x, x])[k : k + 1024] + x)


def test_pieces_of_a_nest_join_their_short_rows() -> None:
    """A loop that was cut where operands meet: the rows of three of each piece fill vectors."""
    body = """x = f32[64,32,3] parameter(0)
        a = f32[64,4,3] slice(x), slice={[0:64], [1:5], [0:3]}
        b = f32[64,4,3] reverse(a), dimensions={1}
        c = f32[64,36,3] concatenate(b, x), dimensions={1}
        ROOT r = f32[64,36,3] exponential(c)"""
    executable = check_native(module_of(body))
    text = "\n".join(executable.loop_ir.values())
    assert "for lane in lanes" in text and "if lane < 3" not in text, text
