"""The compiler as a library: parse, compile, evaluate, execute, and what can be read."""

from __future__ import annotations

import doctest
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import xla_backend
from xla_backend import library
from xla_backend.hlo.errors import VerificationError

SUM_OF_PRODUCT = """
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
ENTRY e {
  x = f32[1000] parameter(0)
  y = f32[1000] parameter(1)
  z = f32[1000] multiply(x, y)
  zero = f32[] constant(0)
  ROOT s = f32[] reduce(z, zero), dimensions={0}, to_apply=add
}"""

TUPLES = """
ENTRY e {
  p = (f32[2], s32[]) parameter(0)
  x = f32[2] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=1
  y = f32[2] negate(x)
  inner = (s32[], f32[2]) tuple(n, y)
  ROOT r = (f32[2], (s32[], f32[2])) tuple(x, inner)
}"""

DONATED = """HloModule m, input_output_alias={ {}: (0, {}, must-alias) }
ENTRY e {
  x = f32[4] parameter(0)
  ROOT r = f32[4] add(x, x)
}"""

PLATFORMS = ["cpu", "interpreter"]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_compiles_and_runs(platform: str) -> None:
    module = xla_backend.parse_hlo(SUM_OF_PRODUCT)
    x = np.linspace(-1, 1, 1000, dtype=np.float32)
    (got,) = xla_backend.compile(module, platform).execute([x, x])
    np.testing.assert_allclose(got, np.sum(x.astype(np.float64) ** 2), rtol=1e-6)
    np.testing.assert_allclose(got, xla_backend.evaluate(module, [x, x])[0], rtol=1e-6)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_tuples_are_flat(platform: str) -> None:
    module = xla_backend.parse_hlo(TUPLES)
    arrays = [np.array([1, 2], np.float32), np.array(7, np.int32)]
    got = xla_backend.compile(module, platform).execute(arrays)
    assert [a.tolist() for a in got] == [[1, 2], 7, [-1, -2]]


def test_a_compilation_leaves_the_module_alone() -> None:
    module = xla_backend.parse_hlo(SUM_OF_PRODUCT)
    executable = xla_backend.compile(module)
    assert [n.opcode.value for n in module.entry] == [
        "parameter",
        "parameter",
        "multiply",
        "constant",
        "reduce",
    ]
    assert executable.module is not module and executable.module.is_scheduled


@pytest.mark.parametrize("platform", ["cpu", "emulator", "interpreter"])
def test_donated_arguments_of_the_caller_stay(platform: str) -> None:
    executable = xla_backend.compile(xla_backend.parse_hlo(DONATED), platform)
    x = np.arange(4, dtype=np.float32)
    (got,) = executable.execute([x])
    assert got.tolist() == [0, 2, 4, 6] and x.tolist() == [0, 1, 2, 3]
    assert executable.memory_analysis().alias_size_in_bytes == 16
    assert executable.loaded.aliases == {0: 0}


def test_kernels_can_be_read() -> None:
    executable = xla_backend.compile(xla_backend.parse_hlo(SUM_OF_PRODUCT))
    (kernel,) = executable.kernels()
    assert kernel.instructions == (executable.module.entry.root.name,)
    assert "for lane in lanes(" in kernel.loop_ir
    assert f"@kernel.{kernel.name}(" in kernel.llvm_ir and not kernel.inline
    assert "ret" in kernel.assembly and kernel.assembly.startswith(f"kernel.{kernel.name}:")
    assert executable.memory_analysis().temp_size_in_bytes == 0
    assert executable.cost_analysis()["flops"] == 1999


def test_kernels_emitted_in_place_are_shown_as_functions() -> None:
    text = "ENTRY e { x = f32[] parameter(0)  ROOT r = f32[] negate(x) }"
    (kernel,) = xla_backend.compile(xla_backend.parse_hlo(text)).kernels()
    assert kernel.inline and "fneg" in kernel.llvm_ir and "ret" in kernel.assembly


def test_equal_kernels_are_listed_once() -> None:
    lines = ["ENTRY e {", "x0 = f32[64,64] parameter(0)"]
    for i in range(3):
        lines.append(f"y{i} = f32[64,64] tanh(x{i})")
        lines.append(f"x{i + 1} = f32[64,64] cholesky(y{i}), lower=true")
    lines.append("ROOT r = f32[64,64] copy(x3) }")
    kernels = xla_backend.compile(xla_backend.parse_hlo("\n".join(lines))).kernels()
    assert 3 in [len(k.instructions) for k in kernels]


def test_platforms_without_kernels_list_none() -> None:
    executable = xla_backend.compile(xla_backend.parse_hlo(SUM_OF_PRODUCT), "interpreter")
    assert executable.kernels() == []


WRONG_ARGUMENTS = [
    ("too few", [np.zeros(1000, np.float32)], "takes 2 arrays, got 1"),
    ("shape", [np.zeros(10, np.float32)] * 2, r"argument 0 .* must be f32\[1000\]"),
    ("dtype", [np.zeros(1000)] * 2, r"argument 0 .* must be f32\[1000\], got float64"),
]


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("name, arrays, message", WRONG_ARGUMENTS, ids=lambda x: str(x)[:9])
def test_wrong_arguments(name: str, arrays: list[np.ndarray], message: str, platform: str) -> None:
    executable = xla_backend.compile(xla_backend.parse_hlo(SUM_OF_PRODUCT), platform)
    with pytest.raises(ValueError, match=message):
        executable.execute(arrays)


def test_flags_of_one_compilation(tmp_path: Path) -> None:
    module = xla_backend.parse_hlo(SUM_OF_PRODUCT)
    xla_backend.compile(module, options={"xla_dump_to": str(tmp_path)})
    assert list(tmp_path.glob("*before_optimizations.txt"))
    with pytest.raises(ValueError, match="did you mean --xla_dump_to"):
        xla_backend.compile(module, options={"xla_dmp_to": "x"})


def test_modules_print_as_hlo() -> None:
    module = xla_backend.parse_hlo(TUPLES)
    assert str(module).startswith("HloModule module_e")
    assert str(xla_backend.parse_hlo(str(module))) == str(module)


def test_an_unknown_platform_lists_those_that_exist() -> None:
    with pytest.raises(ValueError, match=r"no platform 'tpu'; there are .*cpu"):
        xla_backend.compile(xla_backend.parse_hlo(SUM_OF_PRODUCT), "tpu")


@pytest.mark.parametrize("run", [xla_backend.compile, lambda m: xla_backend.evaluate(m, [])])
def test_invalid_modules_are_refused(run) -> None:  # type: ignore[no-untyped-def]
    text = "ENTRY e { x = f32[2] parameter(0)  ROOT r = f32[3] negate(x) }"
    with pytest.raises(VerificationError, match="negate"):
        run(xla_backend.parse_hlo(text))


@pytest.mark.parametrize("module", [library, xla_backend], ids=lambda m: m.__name__)
def test_examples_run(module) -> None:  # type: ignore[no-untyped-def]
    result = doctest.testmod(module, extraglobs={"np": np})
    assert result.attempted and not result.failed


def test_names_load_on_first_use() -> None:
    code = "import sys, xla_backend; assert 'numpy' not in sys.modules; xla_backend.compile"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert set(xla_backend.__all__) <= set(dir(xla_backend))
    with pytest.raises(AttributeError, match="no attribute 'compil'"):
        _ = xla_backend.compil
