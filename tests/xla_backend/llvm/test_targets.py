"""The same emitters for other targets: older x86-64 levels run here, ARM64 compiles."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

import xla_backend
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm import elemental, jit, objects
from xla_backend.llvm.math import FLOAT_FUNCTIONS
from xla_backend.llvm.target import host_target, make_target
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.targets.cpu.routines import gemm
from xla_backend.targets.cpu.routines.gemm_tiles import GEMM_TYPES
from xla_backend.targets.cpu.routines.library import kernel_library
from xla_backend.targets.cpu.routines.registry import group_module
from xla_backend.targets.cpu.routines.subjects import declare_kernels

PTR, I64 = ctypes.c_void_p, ctypes.c_int64
ON_X86 = pytest.mark.skipif(not host_target().is_x86, reason="needs an x86-64 machine")
LEVELS = ["x86-64", "x86-64-v2", "x86-64-v3"]


def level(cpu):
    return make_target(host_target().triple, cpu)


def elementwise(target, names, t):
    module = ModuleWriter(target)
    n = target.lanes(32 if t is P.F32 else 64)
    for name in names:
        w = module.function("k." + name, [("ptr", "x"), ("ptr", "o"), ("i64", "n")])
        with w.loop(0, "%n", n) as loop:
            mask = w.active_mask(n, loop.index, "%n")
            v = elemental.load(w, t, n, "%x", loop.index, mask)
            operands = (v, v) if name in ("power", "atan2") else (v,)
            elemental.store(
                w, t, n, elemental.emit(w, name, t, n, *operands), "%o", loop.index, mask
            )
        w.ret()
    return module


REFERENCE = {
    "exponential": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sine": np.sin,
    "cosine": np.cos,
    "power": lambda x: np.power(x, x),
    "cbrt": np.cbrt,
    "floor": np.floor,
}


@ON_X86
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "t, dtype, tolerance", [(P.F32, np.float32, 4e-7), (P.F64, np.float64, 1e-15)]
)
@pytest.mark.parametrize("cpu", LEVELS)
def test_math_on_older_machines(cpu, t, dtype, tolerance):
    module = elementwise(level(cpu), REFERENCE, t)
    library = jit.Library(objects.compile_object(module.to_text(), level(cpu)))
    x = np.concatenate([np.linspace(-20, 20, 501), [0, 1e5, -3e7, 1e30]]).astype(dtype)
    wide = x.astype(np.longdouble if dtype == np.float64 else np.float64)
    for name, reference in REFERENCE.items():
        out = np.empty_like(x)
        fn = library.function("k." + name, None, PTR, PTR, I64)
        fn(x.ctypes.data, out.ctypes.data, x.size)
        expected = reference(wide).astype(dtype)
        np.testing.assert_allclose(
            out, expected, rtol=tolerance, atol=0, err_msg=f"{name} on {cpu}"
        )


@ON_X86
@pytest.mark.parametrize("kind", ["f32", "f64", "bf16_f32", "s32_s32"])
@pytest.mark.parametrize("cpu", LEVELS)
def test_gemm_on_older_machines(cpu, kind):
    import ml_dtypes

    types = [I64, I64, I64, PTR, I64, I64, PTR, I64, I64, PTR, I64, I64]
    fn = ctypes.CFUNCTYPE(None, *types)(kernel_library(level(cpu))[f"pyjax_gemm_{kind}"])
    dtypes = {"f32": (np.float32,) * 2, "f64": (np.float64,) * 2, "s32_s32": (np.int32,) * 2}
    source, target = dtypes.get(kind, (ml_dtypes.bfloat16, np.float32))
    rng = np.random.default_rng(0)
    for m, n, k in [(1, 1, 1), (7, 13, 5), (40, 50, 300), (1, 30, 20), (30, 1, 20)]:
        a = rng.integers(-5, 6, (m, k)).astype(source)
        b = rng.integers(-5, 6, (k, n)).astype(source)
        c = np.full((m, n), 9, target)
        fn(m, n, k, a.ctypes.data, k, 1, b.ctypes.data, n, 1, c.ctypes.data, n, 0)
        np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.parametrize("features", ["", "+neon,+fp-armv8"])
def test_arm64_compiles(features):
    target = make_target("aarch64-unknown-linux-gnu", "generic", features)
    names = [n for n in FLOAT_FUNCTIONS if n != "power"]
    data = objects.compile_object(elementwise(target, names, P.F32).to_text(), target, jit=False)
    assert data[:4] == b"\x7fELF"
    module = ModuleWriter(target)
    gemm.emit_group(GEMM_TYPES["f32"], module)
    assert objects.compile_object(module.to_text(), target, jit=False)
    declare_kernels()
    text = group_module("sort_f32", target).to_text()
    assert objects.compile_object(text, target, jit=False)


def test_facts():
    assert level("x86-64").vector_bits == 128 and not level("x86-64").has_fma
    assert level("x86-64-v3").vector_bits == 256 and level("x86-64-v3").has_fma
    assert level("x86-64-v4").vector_bits == 512
    assert make_target("aarch64-apple-darwin", "apple-m1").lanes(32) == 4


def test_only_linking_and_defaults_ask_for_this_machine():
    """Passes, rules and emitters are told what they make code for."""
    package = Path(xla_backend.__file__).parent
    asking = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if "host_target()" in path.read_text() or "kernel_library(" in path.read_text()
    }
    assert asking == {
        "llvm/target.py", "llvm/jit.py", "llvm/lljit.py", "targets/cpu/planned.py",
        "runtime/host_libraries/lent_threads.py",
        "targets/cpu/meeting_places.py", "targets/cpu/movement_executable.py",
        "targets/cpu/threaded/first_code.py",
        "targets/cpu/target_options.py", "targets/cpu/program_code.py",
        "targets/cpu/routines/__init__.py", "targets/cpu/routines/python_calls.py",
        "targets/cpu/routines/library.py", "targets/cpu/routines/thread_pool.py",
        "targets/cpu/routines/queues.py", "tools/precompile.py",
    }  # fmt: skip
