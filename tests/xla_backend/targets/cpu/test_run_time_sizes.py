"""Programs with run-time sizes: one compilation agrees with those for each size."""

import re

import numpy as np
import pytest
from native_checks import module_of

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.llvm import objects
from xla_backend.llvm.target import host_target
from xla_backend.runtime.hlo_client import host_device
from xla_backend.targets.cpu.compiler import compile_module
from xla_backend.targets.cpu.run_time_sizes import compile_sized

N, M = 2147483647, 2147483629  # stand for sizes
SIZES = (0, 1, 2, 7, 31, 32, 33, 1000, 4097)

ADD = "add_F { a = F[] parameter(0) b = F[] parameter(1) ROOT r = F[] add(a, b) }\n"
MAX = "max_F { a = F[] parameter(0) b = F[] parameter(1) ROOT r = F[] maximum(a, b) }\n"


def reducers(type: str) -> str:
    return (ADD + MAX).replace("F", type)


VECTOR = """
n = s32[] parameter(0)
x = {t}[N] parameter(1)
s = {t}[] parameter(2)
zero = {t}[] constant(0)
bs = {t}[N] broadcast(s), dimensions={{}}
i = s32[N] iota(), iota_dimension=0
f = {t}[N] convert(i)
y = {t}[N] add(x, bs)
z = {t}[N] multiply(y, f)
total = {t}[] reduce(z, zero), dimensions={{0}}, to_apply=add_{t}
most = {t}[] reduce(y, zero), dimensions={{0}}, to_apply=max_{t}
bm = {t}[N] broadcast(most), dimensions={{}}
w = {t}[N] subtract(y, bm)
c = pred[N] compare(x, bs), direction=LT
"""
VECTOR_ROOTS = ["y", "z", "total", "most", "w", "c", "s", "x"]

MATRIX = """
n = s32[] parameter(0)
m = s32[] parameter(1)
x = {t}[N,3] parameter(2)
y = {t}[4,N] parameter(3)
z = {t}[N,M] parameter(4)
v = {t}[M] parameter(5)
zero = {t}[] constant(0)
rows = {t}[N] reduce(x, zero), dimensions={{1}}, to_apply=add_{t}
columns = {t}[3] reduce(x, zero), dimensions={{0}}, to_apply=add_{t}
beside = {t}[4] reduce(y, zero), dimensions={{1}}, to_apply=max_{t}
over = {t}[N] reduce(y, zero), dimensions={{0}}, to_apply=add_{t}
spread = {t}[N,M] broadcast(v), dimensions={{1}}
down = {t}[N,M] broadcast(rows), dimensions={{0}}
sum = {t}[N,M] add(z, spread)
both = {t}[N,M] subtract(sum, down)
left = {t}[M] reduce(both, zero), dimensions={{0}}, to_apply=add_{t}
all = {t}[] reduce(both, zero), dimensions={{0,1}}, to_apply=add_{t}
turned = {t}[M,N] transpose(both), dimensions={{1,0}}
unit = {t}[N,1] reshape(over)
"""
MATRIX_ROOTS = ["rows", "columns", "beside", "over", "both", "left", "all", "turned", "unit"]


def program(lines: str, roots: list[str], type: str, sizes: tuple[object, object]):
    text = lines.format(t=type)
    shapes = [re.search(rf"^{r} = (\S+)", text, re.MULTILINE)[1] for r in roots]  # type: ignore
    text += f"ROOT out = ({', '.join(shapes)}) tuple({', '.join(roots)})"
    for name, size in zip("NM", sizes):
        text = re.sub(rf"\b{name}\b", str(size), text)
    return module_of(text, reducers(type))


def check(lines, roots, type, sizes, values, options=None):
    sized = compile_sized(program(lines, roots, type, (N, M)), sizes, options)
    rng = np.random.default_rng(0)
    for at in values:
        static = compile_module(program(lines, roots, type, (*at, 0)))
        arguments = [np.int32(v) for v in at]
        for shape in static.parameter_shapes[len(at) :]:
            # Whole numbers: their sums are exact in any order.
            random = rng.integers(-4, 5, shape.dimensions)
            arguments.append(random.astype(shape.element_type.numpy_dtype))
        got = sized.at(at, host_device()).run_arrays(arguments)
        for root, g, w in zip(roots, got, static.run_arrays(arguments)):
            np.testing.assert_array_equal(g, w, err_msg=f"{root} at {at}")
            assert g.dtype == w.dtype and g.shape == w.shape


@pytest.mark.parametrize("type", ["f32", "f64", "s32", "s8"])
def test_vectors_of_any_length(type):
    check(VECTOR, VECTOR_ROOTS, type, [N], [(n,) for n in SIZES], CompileOptions(verify=True))


@pytest.mark.parametrize("type", ["f32", "s64"])
def test_matrices_of_any_size(type):
    values = [(n, m) for n in (0, 1, 5, 33, 300) for m in (0, 1, 7, 64, 130)]
    check(MATRIX, MATRIX_ROOTS, type, [N, M], values, CompileOptions(verify=True))


def test_operations_without_such_a_form_are_refused():
    lines = (
        "n = s32[] parameter(0)\nx = f32[N] parameter(1)\nr = f32[N] reverse(x), dimensions={{0}}\n"
    )
    with pytest.raises(UnimplementedError, match=r"reverse.*known at run time only"):
        compile_sized(program(lines, ["r"], "f32", (N, M)), [N])


def test_sums_run_in_lanes():
    """The whole groups of a loop with a run-time extent, and then those of the last that count."""
    code = compile_sized(program(VECTOR, ["total"], "f32", (N, M)), [N])
    group = re.search(
        r"lanes\((\d+)\):\n *acc1 = .*\n *for i in range\(\(n0 // \1\)\):", code.loop_ir
    )
    assert group and f"if -(n0 % {group[1]}) + lane < 0:" in code.loop_ir


def compiled_once(operation: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """The loops and the LLVM text of an operation on vectors of any length."""
    texts: list[str] = []
    compile_object = objects.compile_object

    def keeping(text: str, *arguments: object, **options: object) -> bytes:
        texts.append(text)
        return compile_object(text, *arguments, **options)

    monkeypatch.setattr(objects, "compile_object", keeping)
    lines = f"n = s32[] parameter(0)\nx = f32[N] parameter(1)\nr = f32[N] {operation}(x)\n"
    code = compile_sized(program(lines, ["r"], "f32", (N, M)), [N])
    return code.loop_ir, *texts


@pytest.mark.skipif(not host_target().has_masks, reason="masked moves are a branch for each lane")
def test_what_takes_long_is_there_once(monkeypatch):
    """LLVM would take as long again for a copy for what whole vectors leave over. Whole vectors do
    not count out their lanes: that is behind a branch which they do not take."""
    loops, text = compiled_once("tanh", monkeypatch)
    assert loops.count("tanh(") == 1
    assert re.search(r"phi <\d+ x i1> \[ splat \(i1 true\)", text)


def test_what_is_left_over_by_whole_vectors_is_masked_and_nothing_else(monkeypatch):
    """It never has all lanes, so that there is no second way for those that do."""
    loops, text = compiled_once("sqrt", monkeypatch)
    assert loops.count("sqrt(") == 2
    plain = re.findall(r"(?:= load|  store) <(\d+) x float>", text)
    assert len(plain) == 2
