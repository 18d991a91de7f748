"""Transposes run in tiles: every order of axes, size of element and remainder."""

import itertools

import numpy as np
import pytest
from native_checks import check_native, module_of

from xla_backend.compile_options import CompileOptions
from xla_backend.program.ir import Launch, Library
from xla_backend.targets.cpu.compiler import compile_module

SHAPES = [(70, 45), (33, 64, 17), (9, 40, 3, 50), (5, 34, 2, 40, 8)]
TYPES = ["u8", "f16", "f32", "s64", "c64", "c128", "pred"]
# Orders of many dimensions make loops around the same tiles: a few widths show them.
CASES = [(s, t) for s in SHAPES for t in (TYPES if len(s) < 4 else ["u8", "f32", "c64"])]


@pytest.mark.parametrize("shape, type", CASES, ids=str)
def test_every_order(shape: tuple[int, ...], type: str) -> None:
    orders = [*itertools.permutations(range(len(shape)))][1:]
    lines = [f"x = {type}[{','.join(map(str, shape))}] parameter(0)"]
    results = []
    for n, order in enumerate(orders[:: max(1, len(orders) // 12)]):
        result = f"{type}[{','.join(str(shape[d]) for d in order)}]"
        results.append(result)
        dims = ",".join(map(str, order))
        lines.append(f"t{n} = {result} transpose(x), dimensions={{{dims}}}")
    names = ", ".join(f"t{n}" for n in range(len(results)))
    lines.append(f"ROOT r = ({', '.join(results)}) tuple({names})")
    check_native(module_of("\n".join(lines)))


FUSED = {
    "added to another array": """
        x = f32[67,130] parameter(0)
        y = f32[130,67] parameter(1)
        t = f32[130,67] transpose(x), dimensions={1,0}
        ROOT r = f32[130,67] add(t, y)""",
    "of much work": """
        x = f32[67,130] parameter(0)
        e = f32[67,130] exponential(x)
        l = f32[67,130] tanh(e)
        ROOT t = f32[130,67] transpose(l), dimensions={1,0}""",
    "of two arrays": """
        x = f32[30,67,50] parameter(0)
        y = f32[67,30,50] parameter(1)
        t = f32[50,67,30] transpose(x), dimensions={2,1,0}
        u = f32[50,67,30] transpose(y), dimensions={2,0,1}
        b = f32[50] parameter(2)
        c = f32[50,67,30] broadcast(b), dimensions={0}
        s = f32[50,67,30] multiply(t, u)
        ROOT r = f32[50,67,30] add(s, c)""",
    "a slice": """
        x = f32[67,130] parameter(0)
        t = f32[130,67] transpose(x), dimensions={1,0}
        ROOT r = f32[100,61] slice(t), slice={[20:120], [3:64]}""",
    "beside the array itself": """
        x = f32[70,70] parameter(0)
        t = f32[70,70] transpose(x), dimensions={1,0}
        ROOT r = f32[140,70] concatenate(t, x), dimensions={0}""",
    "to another type": """
        x = u8[67,130] parameter(0)
        f = f32[67,130] convert(x)
        ROOT t = f32[130,67] transpose(f), dimensions={1,0}""",
}


@pytest.mark.parametrize("body", FUSED.values(), ids=FUSED)
def test_fused(body: str) -> None:
    check_native(module_of(body))


@pytest.mark.parametrize(
    ("shape", "order"),
    [((128, 256, 128), (2, 0, 1)), ((16, 1 << 18), (1, 0)), ((1 << 18, 16), (1, 0))],
    ids=str,
)
def test_each_tile_is_done_once(shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    """Split over threads: each block does its own columns, or rows, and no others."""
    result = ",".join(str(shape[d]) for d in order)
    module = module_of(
        f"x = f32[{','.join(map(str, shape))}] parameter(0)\n"
        f"y = f32[{result}] parameter(1)\n"
        f"t = f32[{result}] transpose(x), dimensions={{{','.join(map(str, order))}}}\n"
        f"ROOT r = f32[{result}] add(t, y)"
    )
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    y = np.ones(np.array(shape)[list(order)], np.float32)
    executable = compile_module(module, CompileOptions())
    (got,) = executable.run_arrays([x, y])
    np.testing.assert_array_equal(got, x.transpose(order) + 1)


def _steps(body: str) -> list[object]:
    return list(compile_module(module_of(body), CompileOptions()).program.steps)


ALONE = {
    "by itself": """
        x = f32[300,200] parameter(0)
        ROOT t = f32[200,300] transpose(x), dimensions={1,0}""",
    "between reshapes": """
        x = f32[60000] parameter(0)
        r = f32[30,20,100] reshape(x)
        t = f32[100,30,20] transpose(r), dimensions={2,0,1}
        ROOT s = f32[100,600] reshape(t)""",
}


@pytest.mark.parametrize("body", ALONE.values(), ids=ALONE)
def test_large_ones_are_a_routine(body: str) -> None:
    (step,) = [s for s in _steps(body) if isinstance(s, Launch | Library)]
    assert isinstance(step, Library) and step.routine == "transpose_4"
    check_native(module_of(body))


@pytest.mark.parametrize("type, routine", [("c64", "transpose_8"), ("c128", "transpose_16")])
def test_squares_of_complex_numbers_are_a_routine(type: str, routine: str) -> None:
    """Loops go through their parts one by one, where those of real numbers have square tiles."""
    body = f"""
        x = {type}[256,128] parameter(0)
        ROOT t = {type}[128,256] transpose(x), dimensions={{1,0}}"""
    (step,) = [s for s in _steps(body) if isinstance(s, Launch | Library)]
    assert isinstance(step, Library) and step.routine == routine
    check_native(module_of(body))
    assert not any(isinstance(s, Library) for s in _steps(body.replace(type, "f64")))


LOOPS = {
    "small": """
        x = f32[100,100] parameter(0)
        ROOT t = f32[100,100] transpose(x), dimensions={1,0}""",
    "with something else": """
        x = f32[300,200] parameter(0)
        n = f32[300,200] negate(x)
        ROOT t = f32[200,300] transpose(n), dimensions={1,0}""",
    "of a slice": """
        x = f32[300,200] parameter(0)
        n = f32[300,190] slice(x), slice={[0:300], [10:200]}
        ROOT t = f32[190,300] transpose(n), dimensions={1,0}""",
    "of two small dimensions apart": """
        x = u8[3,20000,2] parameter(0)
        ROOT t = u8[2,20000,3] transpose(x), dimensions={2,1,0}""",
}


@pytest.mark.parametrize("body", LOOPS.values(), ids=LOOPS)
def test_others_are_loops(body: str) -> None:
    assert not any(isinstance(s, Library) for s in _steps(body))
    check_native(module_of(body))


@pytest.mark.parametrize("type", ["u8", "f32", "c128"])
def test_routines_in_programs(type: str) -> None:
    """Several in a program, one after the other, on one thread and on several."""
    body = f"""
        x = {type}[131,3,257] parameter(0)
        a = {type}[257,131,3] transpose(x), dimensions={{2,0,1}}
        b = {type}[3,257,131] transpose(x), dimensions={{1,2,0}}
        c = {type}[131,257,3] transpose(x), dimensions={{0,2,1}}
        ROOT r = ({type}[257,131,3], {type}[3,257,131], {type}[131,257,3]) tuple(a, b, c)"""
    assert all(isinstance(s, Library) for s in _steps(body))
    check_native(module_of(body))
