"""Programs that only call routines are the same code for all sizes, and give what code of their own
would."""

import numpy as np
import pytest
from native_checks import module_of

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.evaluator import evaluate
from xla_backend.llvm import objects
from xla_backend.process.bounded_cache import BoundedCache, Budget
from xla_backend.targets.cpu import compiler
from xla_backend.targets.cpu.compiler import compile_module

LESS = """
less {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}
add {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}
"""
BODIES = {
    "product": """x = f32[{m},{k}] parameter(0)
  y = f32[{k},{n}] parameter(1)
  ROOT d = f32[{m},{n}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}""",
    "batches": """x = f32[3,{m},{k}] parameter(0)
  y = f32[3,{k},{n}] parameter(1)
  ROOT d = f32[3,{m},{n}] dot(x, y), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, \
lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}""",
    "sort": """x = s32[{m},{k}] parameter(0)
  ROOT s = s32[{m},{k}] sort(x), dimensions={{1}}, is_stable=true, to_apply=less""",
    "running sum": """x = f32[{m},{k}] parameter(0)
  zero = f32[] constant(0)
  ROOT w = f32[{m},{k}] reduce-window(x, zero), \
window={{size=1x{k} pad=0_0x{before}_0}}, to_apply=add""",
    "transform": """x = c64[{m},{k}] parameter(0)
  ROOT t = c64[{m},{k}] fft(x), fft_type=FFT, fft_length={{{k}}}""",
}
SIZES = [
        (1, 1, 1), (2, 2, 2), (1, 5, 3), (3, 1, 2), (2, 16, 16), (7, 15, 17), (8, 31, 33),
        (9, 64, 48), (16, 65, 63), (33, 17, 1), (40, 200, 70), (5, 1000, 130), (130, 300, 96),
]  # fmt: skip


def module_for(name, m, k, n):
    return module_of(BODIES[name].format(m=m, k=k, n=n, before=k - 1), LESS)


def arguments_of(module, seed):
    rng = np.random.default_rng(seed)
    dims = [(p.shape.dimensions, p.shape.element_type.numpy_dtype) for p in module.entry.parameters]
    return [(9 * rng.standard_normal(shape)).astype(dtype) for shape, dtype in dims]


@pytest.mark.parametrize("name", BODIES)
def test_bits_of_code_for_the_sizes(name, monkeypatch):
    write = compiler.write_code
    texts = set()
    for seed, sizes in enumerate(SIZES):
        shared = compile_module(module_for(name, *sizes))
        arguments = arguments_of(shared.module, seed)
        with monkeypatch.context() as patch:
            apart = lambda *given, shared: write(*given)
            patch.setattr(compiler, "write_code", apart)
            alone = compile_module(module_for(name, *sizes))
        found, expected = shared.run_arrays(arguments), alone.run_arrays(arguments)
        np.testing.assert_array_equal(found, expected)
        (meant,) = evaluate(module_for(name, *sizes), arguments)
        np.testing.assert_allclose(found[0], meant, rtol=2e-4, atol=2e-2 * sizes[1])
        if "pyjax_numbers" in shared.llvm_ir:
            assert "pyjax_numbers" not in alone.llvm_ir
            texts.add(shared.llvm_ir)
    assert 0 < len(texts) < len(SIZES) - 2


@pytest.fixture
def compiled(monkeypatch):
    """Texts that LLVM was given, with nothing known from before."""
    seen = []
    compile_them = objects.compile_objects

    def counted(texts, *arguments, **keywords):
        seen.extend(texts)
        return compile_them(texts, *arguments, **keywords)

    monkeypatch.setattr(compiler, "_compile_objects", counted)
    monkeypatch.setattr(compiler, "_shared_objects", BoundedCache(Budget("test", entries=8)))
    return seen


def test_other_sizes_are_not_compiled(compiled):
    for width in (70, 71, 100, 333):
        module = module_for("sort", 6, width, 1)
        x = arguments_of(module, width)
        (found,) = compile_module(module).run_arrays(x)
        np.testing.assert_array_equal(found, np.sort(x[0], 1))
    assert len([text for text in compiled if "pyjax_sort_s32" in text]) == 1


def test_targets_and_levels_have_their_own(compiled):
    for level in (1, 3):
        compile_module(module_for("sort", 6, 72, 1), CompileOptions(optimization_level=level))
    assert len([text for text in compiled if "pyjax_sort_s32" in text]) == 2


def test_programs_with_kernels_know_their_sizes():
    body = BODIES["sort"].format(m=6, k=70).replace("ROOT s", "s")
    executable = compile_module(module_of(body + "\n  ROOT e = s32[6,70] add(s, s)", LESS))
    assert "pyjax_numbers" not in executable.llvm_ir
    assert "i64 70" in executable.llvm_ir
