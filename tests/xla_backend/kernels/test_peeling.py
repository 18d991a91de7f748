"""Loops split where a condition on their variable changes, as text and run by the interpreter."""

import numpy as np
import pytest
from native_checks import arguments_of, check_native, check_text, module_of

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.from_hlo.lower import lower
from xla_backend.kernels.interpreter import run_kernel
from xla_backend.kernels.ir import walk
from xla_backend.kernels.printer import kernel_to_text
from xla_backend.kernels.schedule.peeling import peel
from xla_backend.targets.cpu.pipeline import build_pipeline


def peeled(body: str, *, expect_change: bool = True, rounds: int = 1) -> str:
    """The text of the root's kernel after the step; it is run before and after."""
    module = module_of(body)
    arguments = arguments_of(module)
    want = evaluate(module, arguments)
    build_pipeline(CompileOptions()).run(module)
    (node,) = (n for n in module.entry if n.opcode is Opcode.FUSION)
    kernel = lower(node, "k")
    values = [arguments[o.parameter_number] for o in node.operands]
    shapes = node.shape.flatten()
    before = run_kernel(kernel, values, shapes)
    size = sum(1 for _ in walk(kernel.stages))
    assert peel(kernel, rounds) == expect_change
    assert sum(1 for _ in walk(kernel.stages)) <= 6 * size
    for w, b, a in zip(want, before, run_kernel(kernel, values, shapes)):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, w, rtol=1e-5)
    return kernel_to_text(kernel)


def rolled(name: str, source: str, shape: tuple[int, ...], axis: int, by: int) -> str:
    """Lines that roll an array as `jnp.roll` does."""
    size = shape[axis]
    by %= size
    parts = []
    for part, low, high in (("a", size - by, size), ("b", 0, size - by)):
        dims = list(shape)
        dims[axis] = high - low
        limits = ", ".join(
            f"[{low}:{high}]" if d == axis else f"[0:{n}]" for d, n in enumerate(shape)
        )
        parts.append(f"{name}{part} = f32[{_dims(dims)}] slice({source}), slice={{{limits}}}")
    joined = f"concatenate({name}a, {name}b), dimensions={{{axis}}}"
    return "\n".join([*parts, f"{name} = f32[{_dims(shape)}] {joined}"])


def _dims(dims: object) -> str:
    return ",".join(map(str, dims))  # type: ignore[call-overload]


def stencil(shape: tuple[int, ...], steps: list[tuple[int, int]]) -> str:
    """The sum of an array rolled along (axis, by)."""
    lines = [f"x = f32[{_dims(shape)}] parameter(0)"]
    total = "x"
    for n, (axis, by) in enumerate(steps):
        lines.append(rolled(f"r{n}", "x", shape, axis, by))
        root = "ROOT " if n == len(steps) - 1 else ""
        lines.append(f"{root}s{n} = f32[{_dims(shape)}] add({total}, r{n})")
        total = f"s{n}"
    return "\n".join(lines)


def test_the_inside_of_a_roll_tests_nothing() -> None:
    check_text(
        peeled(stencil((100,), [(0, 1), (0, -1)])),
        """
        // CHECK: def k(p0: f32[100], out0: f32[100]):
        // CHECK-NEXT: for i in range(1):
        // CHECK: for i in range(98):
        // CHECK-NEXT: p0[i + 2]
        // CHECK-NEXT: p0[i]
        // CHECK-NEXT: p0[i + 1]
        // CHECK-NOT: if
        // CHECK: out0[i + 1] =
        // CHECK-NEXT: for i in range(1):
        // CHECK: out0[99] =
        """,
    )


def test_rows_are_peeled_and_their_vectors_left_to_the_schedule() -> None:
    check_text(
        peeled(stencil((20, 30), [(0, 1), (1, 1)])),
        """
        // CHECK: for i in range(1):
        // CHECK-NEXT: for j in range(30):
        // CHECK: for i in range(19):
        // CHECK-NEXT: for j in range(30):
        // CHECK: <= j <
        // CHECK: p0[30*i + j]
        // CHECK-NOT: for
        // CHECK: out0[30*i + j + 30]
        """,
    )


def test_a_comparison_of_an_iota() -> None:
    check_text(
        peeled(
            """x = f32[20,30] parameter(0)
            i = s32[20,30] iota(), iota_dimension=0
            k = s32[] constant(7)
            ks = s32[20,30] broadcast(k), dimensions={}
            p = pred[20,30] compare(i, ks), direction=LT
            n = f32[20,30] negate(x)
            ROOT r = f32[20,30] select(p, n, x)"""
        ),
        """
        // CHECK: for i in range(7):
        // CHECK-NEXT: for j in range(30):
        // CHECK-NEXT: [[X:v[0-9]+]] = p0[30*i + j]
        // CHECK-NEXT: [[N:v[0-9]+]] = -[[X]]
        // CHECK-NEXT: out0[30*i + j] = [[N]]
        // CHECK-NEXT: for i in range(13):
        // CHECK-NEXT: for j in range(30):
        // CHECK-NEXT: [[X:v[0-9]+]] = p0[30*i + j + 210]
        // CHECK-NEXT: out0[30*i + j + 210] = [[X]]
        """,
    )


@pytest.mark.parametrize("direction", ["LT", "LE", "GT", "GE"])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("k", [-3, 0, 7, 18, 19, 20, 100])
def test_every_comparison(direction: str, swapped: bool, k: int) -> None:
    operands = "ks, i" if swapped else "i, ks"
    body = f"""x = f32[20,3] parameter(0)
        i = s32[20,3] iota(), iota_dimension=0
        k = s32[] constant({k})
        ks = s32[20,3] broadcast(k), dimensions={{}}
        p = pred[20,3] compare({operands}), direction={direction}
        n = f32[20,3] negate(x)
        ROOT r = f32[20,3] select(p, n, x)"""
    inclusive = direction in ("LE", "GT") if not swapped else direction in ("LT", "GE")
    peeled(body, expect_change=0 < k + inclusive < 20)


@pytest.mark.parametrize(
    ("shape", "steps"),
    [
        ((40,), [(0, 3), (0, -5)]),
        ((12, 14), [(0, 1), (0, -1), (1, 1), (1, -1)]),
        ((12, 14), [(0, b) for b in range(-4, 5) if b]),
        ((6, 7, 8), [(0, 1), (0, -2), (1, 1), (1, -1), (2, 3)]),
        ((9, 2, 5), [(0, 4), (1, 1), (2, -1)]),
    ],
    ids=str,
)
def test_stencils_mean_the_same(shape: tuple[int, ...], steps: list[tuple[int, int]]) -> None:
    peeled(stencil(shape, steps))


def test_many_edges_make_few_pieces() -> None:
    """Steps of up to nine elements: the rows near either edge stay one piece each."""
    text = peeled(stencil((60, 9), [(0, b) for b in range(-9, 10) if b]))
    assert text.count("for i in") == 3


def test_a_pad() -> None:
    peeled(
        """x = f32[10,12] parameter(0)
        z = f32[] constant(1)
        p = f32[14,16] pad(x, z), padding=1_3x2_2
        ROOT r = f32[14,16] exponential(p)"""
    )


def test_a_reduction_of_a_roll_keeps_its_order() -> None:
    """The reduced loop carries a sum and is left whole; the loop of rows around it is not."""
    lines = rolled("r", "x", (20, 30), 0, 1)
    module = module_of(
        f"x = f32[20,30] parameter(0)\n{lines}\nz = f32[] constant(0)\n"
        "ROOT s = f32[20] reduce(r, z), dimensions={1}, to_apply=sum",
        "sum {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b)\n}\n",
    )
    arguments = arguments_of(module)
    build_pipeline(CompileOptions()).run(module)
    (node,) = (n for n in module.entry if n.opcode is Opcode.FUSION)
    kernel = lower(node, "k")
    before = run_kernel(kernel, arguments, node.shape.flatten())
    assert peel(kernel, 1)
    np.testing.assert_array_equal(run_kernel(kernel, arguments, node.shape.flatten()), before)
    assert kernel_to_text(kernel).count("acc") > 2


@pytest.mark.parametrize(
    "body",
    [
        "x = f32[90] parameter(0)\nROOT r = f32[90] negate(x)",
        "x = f32[9,10] parameter(0)\nROOT r = f32[10,9] transpose(x), dimensions={1,0}",
    ],
    ids=["no condition", "none either"],
)
def test_others_stay(body: str) -> None:
    peeled(body, expect_change=False)


def test_short_loops_stay() -> None:
    peeled(stencil((100,), [(0, 1)]), expect_change=False, rounds=400)


def test_loads_under_conditions_count_as_work() -> None:
    peeled(stencil((100,), [(0, 1), (0, -1), (0, 2), (0, -2)]), rounds=400)


def test_short_loops_with_much_to_do_do_not() -> None:
    joined = """x = f32[1,100] parameter(0)
        s = f32[1,100] parameter(1)
        c = f32[2,100] concatenate(x, s), dimensions={0}
        ROOT r = f32[2,100] FUN(c)"""
    peeled(joined.replace("FUN", "negate"), expect_change=False, rounds=1000)
    peeled(joined.replace("FUN", "tanh"), rounds=1000)


@pytest.mark.parametrize(
    ("shape", "steps"),
    [
        ((20_000,), [(0, 1), (0, -1)]),
        ((300, 90), [(0, 1), (0, -1), (1, 1), (1, -1)]),
        ((30, 31, 32), [(0, 1), (1, -2), (2, 3), (0, -3)]),
        ((1_000_000,), [(0, 1), (0, -7)]),
    ],
    ids=str,
)
def test_machine_code(shape: tuple[int, ...], steps: list[tuple[int, int]]) -> None:
    check_native(module_of(stencil(shape, steps)))
